"""Images from any source, and the loader that turns them into batches."""

from cacr.data.batch import Batch
from cacr.data.errors import MissingPartError, Problem
from cacr.data.files import FileSource
from cacr.data.imbalance import imbalanced, make_imbalanced
from cacr.data.inspection import Inspection, inspect_source
from cacr.data.loader import Loader
from cacr.data.open import open_source
from cacr.data.prepare import Prepared, prepare
from cacr.data.registry import SOURCES, Part
from cacr.data.source import ArraySource, Sample, Source
from cacr.data.stream import StreamSource
from cacr.errors import UnreadableImageError

__all__ = [
    "SOURCES",
    "ArraySource",
    "Batch",
    "FileSource",
    "Inspection",
    "Loader",
    "MissingPartError",
    "Part",
    "Prepared",
    "Problem",
    "Sample",
    "Source",
    "StreamSource",
    "UnreadableImageError",
    "imbalanced",
    "inspect_source",
    "make_imbalanced",
    "open_source",
    "prepare",
]
