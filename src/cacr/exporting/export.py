"""``cacr export``: write an encoder for other software, and check it before it is renamed."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from cacr.encoders import Encoder, EncoderInfo, load_encoder, locate
from cacr.encoders.reader_file import save_reader
from cacr.errors import UserError
from cacr.exporting.card import model_card
from cacr.exporting.format import FORMATS, WEIGHTS_SUFFIX, Features, Files, Format
from cacr.files import atomic_path, require_new_file, require_writable, write_atomically
from cacr.randomness import generator
from cacr.reading.files import kind_of
from cacr.runs.folder import RunFolder
from cacr.runs.result import read_results
from cacr.runs.run import run_of

TOLERANCE = 1e-5
"""Largest difference of a feature, relative to the largest feature."""

CHECKED = (1, 5)
"""Sizes of the batches that are compared."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        file: The encoder.
        info: Its description: architecture, image size, normalisation, training.
        card: The model card.
        reader: The reader; None if the encoder has none.
        code: Python code that loads the file.
        difference: Largest difference of a feature from the original, relative to the largest feature.
        finished: Whether the run was finished.
        notes: Notes on how the tensors of a file of other software were loaded.
    """

    file: Path
    info: Path
    card: Path
    reader: Path | None
    code: str
    difference: float
    finished: bool
    notes: tuple[str, ...] = ()


def export_run(run: str | os.PathLike[str], to: str, out: Path, *, download: bool = False) -> Exported:
    """Export an encoder for other software, with a description, a model card and its reader.

    Args:
        run: What :func:`cacr.encoders.load_encoder` takes: a run folder, ``timm:NAME@FILE``, a checkpoint.
        to: The format, a name of :data:`FORMATS`.
        out: The file or folder; :meth:`Format.files` lists the other files. None of them may exist.
        download: Allow the download of timm's pretrained weights for ``timm:NAME``.

    Raises:
        UserError: the format does not support the encoder, or the features would differ from the original.
    """
    kind = FORMATS[to]()
    files = kind.files(out)
    _require_new(kind, out, files)
    encoder = load_encoder(run, download=download)
    reader = None if encoder.reader is None else files.reader
    if reader is not None and kind.suffix:
        require_new_file(reader, (WEIGHTS_SUFFIX,))
    for path in () if encoder.load_text is None else kind.text_files(out):
        require_new_file(path, (path.suffix,))
    if why := kind.refusal(encoder.info):
        raise UserError(why)
    encoder.info = _without_paths(encoder.info)
    with atomic_path(out) as temporary:
        kind.write(encoder, temporary)
        difference = largest_difference(encoder, kind.read(encoder.info, temporary))
        if not difference <= TOLERANCE:
            raise UserError(
                f"nothing was written: in {to} the features differ by {difference:.1g} of the largest, more "
                f"than {TOLERANCE:g}; please report this with the encoder's name, {encoder.info.encoder}"
            )
    code = kind.code(encoder.info, out.name)
    place = locate(run)
    stored = place.file if place.kind == "stored" else None
    whole = None if stored is None else run_of(stored)
    card = model_card(
        encoder,
        [] if stored is None else read_results(RunFolder(stored.parent).evaluation),
        None if whole is None else whole.settings,
        title=out.stem,
        to=to,
        code=code,
        reader=None if reader is None else reader.name,
    )
    write_atomically(files.description, (json.dumps(asdict(encoder.info), indent=2) + "\n").encode())
    write_atomically(files.card, card.encode())
    if reader is not None and encoder.reader is not None:
        save_reader(reader, encoder.reader, encoder)
    finished = bool(encoder.info.training.get("finished", True))
    notes: tuple[str, ...] = () if encoder.loaded is None else (encoder.loaded.text,)
    if encoder.load_text is not None:
        notes += (kind.write_text(encoder, out),)
    return Exported(files.weights, files.description, files.card, reader, code, difference, finished, notes)


def _require_new(kind: Format, out: Path, files: Files) -> None:
    """Refuse files that exist, before anything is computed.

    Raises:
        UserError: names it.
    """
    if not kind.suffix:
        if kind_of(out) is not None:
            raise UserError(f"{out} exists already: remove it, or choose another folder")
        require_writable(out.parent)
        return
    require_new_file(files.weights, (kind.suffix,))
    require_new_file(files.description, (".json",))
    require_new_file(files.card, (".md",))


def _without_paths(info: EncoderInfo) -> EncoderInfo:
    """The description without private paths: the name of the data, but not its location."""
    training = dict(info.training)
    if isinstance(training.get("data"), str):
        training["data"] = Path(training["data"]).name
    return replace(info, training=training)


@torch.inference_mode()
def largest_difference(encoder: Encoder, features: Features) -> float:
    """Max |f - g| / max |f| over the features f of an encoder and g of its copy, on batches of noise.

    NaN if a feature is not finite.
    """
    size, found = encoder.info.image_size, []
    for count in CHECKED:
        images = torch.randn(count, encoder.info.channels, size, size, generator=generator("export", count))
        original = encoder(images).double()
        largest = original.abs().max().clamp(min=torch.finfo(torch.float32).tiny)  # features may all be zero
        found.append((features(images) - original).abs().max() / largest)
    return torch.stack(found).max().item()
