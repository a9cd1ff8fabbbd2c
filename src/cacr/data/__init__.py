"""Sources of images, and the loader that makes batches from them."""

from cacr.data.batch import Batch
from cacr.data.captions import most_captions
from cacr.data.errors import MissingPartError, Problem
from cacr.data.files import FileSource
from cacr.data.grey import is_grey
from cacr.data.imbalance import class_fractions, imbalanced, make_imbalanced
from cacr.data.inspection import Inspection, inspect_source
from cacr.data.loader import Loader
from cacr.data.named_images import KnownLabels, absolute_list, known_labels
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
    "KnownLabels",
    "Loader",
    "MissingPartError",
    "Part",
    "Prepared",
    "Problem",
    "Sample",
    "Source",
    "StreamSource",
    "UnreadableImageError",
    "absolute_list",
    "class_fractions",
    "imbalanced",
    "inspect_source",
    "is_grey",
    "known_labels",
    "make_imbalanced",
    "most_captions",
    "open_source",
    "prepare",
]
