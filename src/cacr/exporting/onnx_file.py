"""A graph that ONNX Runtime and others run without PyTorch."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cacr.encoders import Encoder, EncoderInfo
from cacr.errors import MissingExtraError, UserError
from cacr.exporting.format import FORMATS, Features, Format


@FORMATS.register("onnx")
class OnnxFile(Format):
    """A graph from normalised images (n, 3, s, s) to features, for any n; for every encoder (extra: onnx)."""

    suffix = ".onnx"

    def refusal(self, info: EncoderInfo) -> str | None:
        """None: whether an architecture can be traced is seen by tracing it."""
        _require("onnx", "onnxruntime", "onnxscript")
        return None

    def write(self, encoder: Encoder, path: Path) -> None:
        """Trace the backbone, with the number of images left open; what it expects is in the file's metadata."""
        info = encoder.info
        images = torch.zeros(2, 3, info.image_size, info.image_size)
        # On the CPU and in the ordinary layout of memory, whatever the encoder was used with before.
        backbone = encoder.backbone.to("cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        try:
            with _quiet():
                program = torch.onnx.export(
                    backbone.eval(),
                    (images,),
                    input_names=["images"],
                    output_names=["features"],
                    dynamic_shapes=({0: torch.export.Dim("batch")},),
                    dynamo=True,
                    verbose=False,
                )
        except Exception as error:  # the tracer fails in as many ways as there are architectures
            first = str(error).strip().split("\n", 1)[0]
            raise UserError(
                f"{info.encoder} cannot be traced for ONNX ({first}); use --to torch, or --to timm"
            ) from error
        assert program is not None
        described = {name: value for name, value in asdict(info).items() if name != "training"}
        program.model.metadata_props.update({f"cacr.{n}": json.dumps(v) for n, v in described.items()})
        program.save(path)

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """By ONNX Runtime."""
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
            f"# images: float32 (n, 3, {info.image_size}, {info.image_size}), a NumPy array\n"
            'encoder = lambda images: session.run(["features"], {"images": images})[0]'
        )


def _require(*packages: str) -> None:
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in packages):
        raise MissingExtraError("exporting to ONNX", "onnx")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tracer's advice to its developers."""
    logger: Any = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
