"""A graph for ONNX Runtime and others, which run it without PyTorch."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from cacr.encoders import Encoder, EncoderInfo
from cacr.errors import MissingExtraError, UserError
from cacr.exporting.format import FORMATS, Features, Format
from cacr.files import atomic_path, write_atomically

CHECKED_TEXTS = ("a photo of a dog", "two cats in the snow", "the")
"""Sentences whose vectors are compared with the original."""

TEXT_TOLERANCE = 1e-4
"""Largest difference of an entry of a unit vector."""


@FORMATS.register("onnx")
class OnnxFile(Format):
    """A graph from normalised images (n, 3, s, s) to features, for any n; for every encoder (extra: onnx).

    For an image-text encoder the graph also gives ``embeddings``, unit vectors to compare with those of a second
    graph, ``NAME.text.onnx``, from tokens (n, context) to unit vectors.
    """

    suffix = ".onnx"

    def refusal(self, info: EncoderInfo) -> str | None:
        """None: tracing itself shows whether an architecture is supported."""
        _require("onnx", "onnxruntime", "onnxscript")
        return None

    def write(self, encoder: Encoder, path: Path) -> None:
        """Trace the backbone for any number of images; the file's metadata describes the input."""
        info = encoder.info
        images = torch.zeros(2, info.channels, info.image_size, info.image_size)
        # On the CPU and in the ordinary memory layout, independent of earlier use.
        backbone = encoder.backbone.to("cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        outputs = ["features"]
        if encoder.load_text is not None:
            backbone, outputs = _Compared(backbone, encoder.text.image_head), ["features", "embeddings"]
        program = _traced(backbone, images, "images", outputs, info.encoder)
        described = {name: value for name, value in asdict(info).items() if name != "training"}
        program.model.metadata_props.update({f"cacr.{n}": json.dumps(v) for n, v in described.items()})
        program.save(path)

    def text_files(self, out: Path) -> tuple[Path, ...]:
        """``NAME.text.onnx`` and ``NAME.tokenizer.json``."""
        return out.with_suffix(f".text{self.suffix}"), out.with_suffix(".tokenizer.json")

    def write_text(self, encoder: Encoder, out: Path) -> str:
        """Write ``NAME.text.onnx``, and the tokeniser if it is a file, next to ``NAME.onnx``.

        Raises:
            UserError: the text encoder cannot be traced, or would give other vectors.
        """
        import onnxruntime

        side, (path, place) = encoder.text, self.text_files(out)
        tokens = side.tower.tokenise(CHECKED_TEXTS).values
        tokens = pad(tokens, (0, side.tower.context - tokens.shape[1]), value=side.tower.pad)
        program = _traced(_Texts(side.tower, side.head), tokens, "tokens", ["embeddings"], "the text encoder")
        with atomic_path(path) as temporary:
            program.save(temporary)
            session = onnxruntime.InferenceSession(temporary, providers=["CPUExecutionProvider"])
            (found,) = session.run(["embeddings"], {"tokens": tokens.numpy()})
            difference = (torch.from_numpy(found) - side.of_texts(CHECKED_TEXTS)).abs().max().item()
            if not difference <= TEXT_TOLERANCE:
                raise UserError(
                    f"the text encoder would give other vectors in ONNX, by {difference:.1g}: please report this"
                )
        tokeniser = side.tower.tokeniser_file
        if tokeniser is None:
            tokens_from = "tokens are those of open_clip.SimpleTokenizer"
        else:
            write_atomically(place, tokeniser.encode())
            tokens_from = f"its tokeniser is {place.name}"
        return (
            f"the text encoder is {path.name}, from tokens (n, {tokens.shape[1]}), padded with {side.tower.pad}, to "
            f"unit vectors ({tokens_from}); `embeddings` of {out.name} are the unit vectors of images"
        )

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Load the file with ONNX Runtime."""
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

        def features(images: Tensor) -> Tensor:
            (values,) = session.run(["features"], {"images": images.numpy()})
            return torch.from_numpy(values)

        return features

    def code(self, info: EncoderInfo, name: str) -> str:
        """The lines of an ONNX Runtime session."""
        return (
            "import onnxruntime\n\n"
            f"session = onnxruntime.InferenceSession({json.dumps(name)})\n"
            f"# images: float32 (n, {info.channels}, {info.image_size}, {info.image_size}), a NumPy array\n"
            'encoder = lambda images: session.run(["features"], {"images": images})[0]'
        )


class _Compared(nn.Module):
    """Features of images, and unit vectors to compare with those of sentences."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.backbone(images)
        return features, normalize(self.head(features), dim=1)


class _Texts(nn.Module):
    """Tokens to unit vectors."""

    def __init__(self, tower: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.tower, self.head = tower, head

    def forward(self, tokens: Tensor) -> Tensor:
        return normalize(self.head(self.tower(tokens)), dim=1)


def _traced(module: nn.Module, example: Tensor, name: str, outputs: list[str], what: str) -> Any:
    """The program of a module, for any number of rows."""
    try:
        with _quiet():
            program = torch.onnx.export(
                module.eval(),
                (example,),
                input_names=[name],
                output_names=outputs,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the tracer fails in many ways
        first = str(error).strip().split("\n", 1)[0]
        raise UserError(
            f"{what} cannot be traced for ONNX ({first}); use --to torch, or --to timm"
        ) from error
    assert program is not None
    return program


def _require(*packages: str) -> None:
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in packages):
        raise MissingExtraError("exporting to ONNX", "onnx")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the tracer's messages for developers."""
    logger: Any = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
