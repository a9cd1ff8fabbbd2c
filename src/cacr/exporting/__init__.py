"""Export encoders for other software: files checked against the original, with a model card."""

from cacr.exporting import (  # noqa: F401  (they register themselves)
    detectron2_file,
    hub_folder,
    onnx_file,
    timm_file,
    torch_file,
    torchvision_file,
)
from cacr.exporting.export import Exported, export_run
from cacr.exporting.format import FORMATS, Format

__all__ = ["FORMATS", "Exported", "Format", "export_run"]
