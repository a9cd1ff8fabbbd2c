"""``cacr export``: an encoder for other software, checked before it gets its name."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from cacr.encoders import Encoder, EncoderInfo, load_encoder
from cacr.encoders.files import reader_file, weights_file
from cacr.encoders.reader_file import save_reader
from cacr.errors import UserError
from cacr.exporting.card import model_card
from cacr.exporting.format import FORMATS, Features
from cacr.files import appearing, require_new_file, write_atomically
from cacr.randomness import generator
from cacr.runs.folder import RunFolder
from cacr.runs.result import read_results
from cacr.runs.run import run_of

TOLERANCE = 1e-5
"""Largest difference of a feature, as a share of the largest feature."""

WEIGHTS_SUFFIX = ".safetensors"

CHECKED = (1, 5)
"""Batches of so many images are compared."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        file: The encoder.
        info: Its description: architecture, image size, normalisation, training.
        card: The model card.
        reader: How its features are to be compared; None where the encoder has no reader.
        code: The lines of Python that load the file.
        difference: Largest difference of a feature from the original's, as a share of the largest feature.
        finished: Whether the run had come to its end.
    """

    file: Path
    info: Path
    card: Path
    reader: Path | None
    code: str
    difference: float
    finished: bool


def export_run(run: str | os.PathLike[str], to: str, out: Path) -> Exported:
    """Write the encoder of a run for other software, with a description, a model card and its reader beside it.

    Args:
        run: A run folder, or an ``encoder.safetensors``.
        to: The format, a name of :data:`FORMATS`.
        out: The file; its description and its card are written beside it (see :func:`beside`), and its reader where
            it has one (see :func:`cacr.encoders.files.reader_file`). None of them may exist.

    Raises:
        UserError: the encoder cannot be written so, or its features would not be those of the original.
    """
    kind = FORMATS[to]()
    require_new_file(out, (kind.suffix,))
    description, card_file = beside(out, ".json"), beside(out, ".md")
    require_new_file(description, (".json",))
    require_new_file(card_file, (".md",))
    encoder = load_encoder(run)
    reader = None if encoder.reader is None else reader_file(out)
    if reader is not None:
        require_new_file(reader, (WEIGHTS_SUFFIX,))
    if why := kind.refusal(encoder.info):
        raise UserError(why)
    encoder.info = _without_paths(encoder.info)
    with appearing(out) as temporary:
        kind.write(encoder, temporary)
        difference = largest_difference(encoder, kind.read(encoder.info, temporary))
        if not difference <= TOLERANCE:
            raise UserError(
                f"nothing was written: in {to} the features differ by {difference:.1g} of the largest, more "
                f"than {TOLERANCE:g}; please report this with the encoder's name, {encoder.info.encoder}"
            )
    code = kind.code(encoder.info, out.name)
    weights = weights_file(Path(run))
    whole = run_of(weights)
    settings = None if whole is None else whole.settings
    card = model_card(
        encoder,
        read_results(RunFolder(weights.parent).evaluation),
        settings,
        title=out.stem,
        to=to,
        code=code,
        reader=None if reader is None else reader.name,
    )
    write_atomically(description, (json.dumps(asdict(encoder.info), indent=2) + "\n").encode())
    write_atomically(card_file, card.encode())
    if reader is not None and encoder.reader is not None:
        save_reader(reader, encoder.reader, encoder)
    finished = bool(encoder.info.training.get("finished", True))
    return Exported(out, description, card_file, reader, code, difference, finished)


def beside(out: Path, suffix: str) -> Path:
    """The file of this suffix that belongs to an exported one.

    ``photos.json`` to ``photos.safetensors``, where :func:`cacr.load_encoder` looks for it, and
    ``photos.onnx.json`` to ``photos.onnx``: both may lie in one folder.
    """
    return out.with_suffix(suffix) if out.suffix.lower() == WEIGHTS_SUFFIX else Path(f"{out}{suffix}")


def _without_paths(info: EncoderInfo) -> EncoderInfo:
    """What may be published: the name of the data, but not where it lies on somebody's machine."""
    training = dict(info.training)
    if isinstance(training.get("data"), str):
        training["data"] = Path(training["data"]).name
    return replace(info, training=training)


@torch.inference_mode()
def largest_difference(encoder: Encoder, features: Features) -> float:
    """Max |f - g| / max |f| over the features f of an encoder and g of its copy, on batches of noise.

    NaN where a feature is not finite.
    """
    size, found = encoder.info.image_size, []
    for count in CHECKED:
        images = torch.randn(count, 3, size, size, generator=generator("export", count))
        original = encoder(images).double()
        largest = original.abs().max().clamp(min=torch.finfo(torch.float32).tiny)  # features may all be zero
        found.append((features(images) - original).abs().max() / largest)
    return torch.stack(found).max().item()
