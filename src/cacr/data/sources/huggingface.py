"""Data sets of the Hugging Face hub, or in its local format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cacr.data.registry import SOURCES, Request
from cacr.data.source import Captions, Indices, Source
from cacr.decode import read_rgb
from cacr.errors import MissingExtraError, UnreadableImageError, UserError
from cacr.reading.foreign import foreign, reason

_TEST_SPLITS = ("test", "validation", "valid", "val")
_LABEL_COLUMNS = ("label", "fine_label")  # preferred if there are several columns of classes
_CAPTION_COLUMNS = ("captions", "caption", "text", "sentences")


@SOURCES.register("hf")
def open_hf(request: Request) -> Source:
    """hf:NAME or hf:NAME:CONFIG of the Hugging Face hub; only from the local cache without --download."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(f"the data {request.spec!r}", "hf") from None
    name, _, config = request.argument.partition(":")
    if not name:
        raise UserError("hf: a name is missing; write hf:NAME, for example hf:uoft-cs/cifar100")
    with _network(allowed=request.download):
        try:
            splits = datasets.load_dataset(name, config or None)
        except Exception as error:  # the library raises many kinds of errors of its readers and the network
            raise UserError(_not_loaded(request, error)) from error
    wanted = _TEST_SPLITS if request.part == "test" else ("train",)
    split = next((split for split in wanted if split in splits), None)
    if split is None:
        raise request.missing_part(f"its splits are {', '.join(splits)}")
    return _from_table(request, splits[split])


class TableSource(Source):
    """Images in a column of a data set of the ``datasets`` library, decoded when they are read."""

    def __init__(
        self,
        name: str,
        table: Any,
        column: str,
        *,
        labels: Sequence[int] | None,
        class_names: Sequence[str] | None,
        captions: Sequence[Captions] | None,
    ) -> None:
        super().__init__(name, labels=labels, class_names=class_names, captions=captions)
        self._table = table
        self._column = column
        self._rows: Indices = np.arange(len(table))

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """Decode the image of a row to plain RGB."""
        with foreign(f"{self.describe(index)} cannot be read"):
            stored = self._table[int(self._rows[index])][self._column]
        if not stored or not (stored.get("bytes") or stored.get("path")):
            raise UnreadableImageError(self.describe(index), "the row has no image")
        content = stored.get("bytes")
        return read_rgb(BytesIO(content) if content else Path(stored["path"]), self.describe(index), at_least)

    def describe(self, index: int) -> str:
        """The data set's name and the row."""
        return f"{self.name}[{self._rows[index]}]"

    def _select(self, indices: Indices) -> None:
        self._rows = self._rows[indices]


def _from_table(request: Request, table: Any) -> TableSource:
    import datasets

    features = table.features
    images = [column for column, kind in features.items() if isinstance(kind, datasets.Image)]
    if not images:
        raise UserError(f"{request.spec} has no column of images; its columns are {', '.join(features)}")
    classes = [column for column, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    label = next((column for column in [*_LABEL_COLUMNS, *classes] if column in classes), None)
    caption = next((column for column in _CAPTION_COLUMNS if _is_text(features.get(column))), None)
    with foreign(f"{request.spec} cannot be read"):
        rows = table.cast_column(images[0], datasets.Image(decode=False))
        labels = [] if label is None else _column(table, label)
        texts = [] if caption is None else _column(table, caption)
    missing = sum(value is None or value < 0 for value in labels)
    labelled = label is not None and not missing
    source = TableSource(
        request.spec,
        rows,
        images[0],
        labels=labels if labelled else None,
        class_names=features[label].names if labelled else None,
        captions=None if caption is None else [_sentences(value) for value in texts],
    )
    if label is None and (column := next((name for name in _LABEL_COLUMNS if name in features), None)):
        return source.with_notes(
            f"the column {column} of {request.spec} is not a column of classes (ClassLabel): used without "
            f"labels; dataset.class_encode_column({column!r}) makes it one"
        )
    if missing:
        return source.with_notes(f"{missing:,} images of {request.spec} have no label: used without labels")
    return source


def _column(table: Any, column: str) -> list[Any]:
    return list(table.select_columns([column])[:][column])


def _is_text(kind: Any) -> bool:
    """Whether a column has sentences, or lists of them."""
    dtype = getattr(getattr(kind, "feature", kind), "dtype", None)  # for a list, the type of its entries
    return dtype in ("string", "large_string")


def _sentences(value: str | list[str | None] | None) -> Captions:
    found = [value] if isinstance(value, str) else value or []
    return tuple(sentence for sentence in found if sentence is not None)


def _not_loaded(request: Request, error: Exception) -> str:
    hint = "check the name" if request.download else "if it is not in the local cache yet, use --download"
    return f"{request.spec} could not be opened: {reason(error)}; {hint}"


@contextmanager
def _network(*, allowed: bool) -> Iterator[None]:
    """Prevent the library from contacting the hub for data in its cache, if downloads are not allowed."""
    import datasets
    import huggingface_hub

    settings: list[tuple[Any, str, Any]] = [
        (datasets.config, "HF_HUB_OFFLINE", not allowed),
        (huggingface_hub.constants, "HF_HUB_OFFLINE", not allowed),
        (datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", False),
    ]
    before = [(module, key, getattr(module, key, None)) for module, key, _ in settings]
    try:
        for module, key, value in settings:
            setattr(module, key, value)
        yield
    finally:
        for module, key, value in before:
            setattr(module, key, value)
