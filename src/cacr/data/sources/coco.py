"""Images with boxes and masks in the COCO format."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from cacr.data.annotated import AnnotatedSource, Marked, box_problem, objects_of
from cacr.data.masks import Mask, mask_of_polygons, mask_of_runs
from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Request
from cacr.errors import UserError
from cacr.reading.documents import parse_json, wrong_fields
from cacr.reading.files import kind_of, read_text
from cacr.reading.memory import require_memory

MOST_BYTES = 2**31
"""Largest annotation file, in bytes; that of COCO 2017 has 449 million."""

MEMORY_FACTOR = 8
"""Memory of the file's content as Python objects, as a multiple of its size."""

LARGEST_SIDE = 65_535
"""Largest side of an image, in pixels; a JPEG cannot be larger."""

_INSTANCES = "instances.json"
_OFFICIAL = re.compile(r"instances_(train|val)(\w*)\.json")
_TESTS = ("test", "val")


@SOURCES.register("coco")
def open_coco(request: Request) -> AnnotatedSource:
    """Images with boxes and masks: images/ and instances.json, or the folders of COCO."""
    file, images = _find(request)
    skipped: list[str] = []
    document = _read(file, skipped)
    labels = _labels(document, file)
    numbers = [image.id for image in document.images]
    if len(set(numbers)) != len(numbers):
        raise UserError(f"{file}: two images have the same id: give each one its own")
    marked: dict[int, list[Marked]] = {number: [] for number in numbers}
    known = {image.id: image for image in document.images}
    for number, annotation in enumerate(document.annotations):
        where = f"annotation {annotation.id if annotation.id is not None else number} of {file}"
        image = known.get(annotation.image_id)
        if image is None:
            skipped.append(f"{where}: there is no image {annotation.image_id}")
            continue
        try:
            marked[image.id].append(_marked(annotation, image, labels))
        except ValueError as error:
            skipped.append(f"{where} ({image.file_name}): {error}")
    names = [inside(image.file_name, str(file)) for image in document.images]
    objects = [objects_of(image.height, image.width, marked[image.id]) for image in document.images]
    categories = [category.name for category in document.categories]
    return AnnotatedSource(request.spec, images, names, objects, categories, skipped=skipped)


Side = Annotated[int, Field(ge=1, le=LARGEST_SIDE)]


@dataclass(frozen=True)
class _Image:
    id: int
    file_name: str
    width: Side
    height: Side


@dataclass(frozen=True)
class _Category:
    id: int
    name: str


@dataclass(frozen=True)
class _Runs:
    size: list[int]
    counts: str | list[int]


@dataclass(frozen=True)
class _Annotation:
    image_id: int
    category_id: int
    bbox: list[float]
    segmentation: list[list[float]] | _Runs | None = None
    iscrowd: int = 0
    id: int | None = None


@dataclass(frozen=True)
class _Document:
    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Annotation]


@dataclass(frozen=True)
class _Unchecked:
    images: list[_Image]
    categories: list[_Category]
    annotations: list[dict[str, Any]]


_DOCUMENT, _UNCHECKED, _ANNOTATION = TypeAdapter(_Document), TypeAdapter(_Unchecked), TypeAdapter(_Annotation)


def _read(file: Path, skipped: list[str]) -> _Document:
    """The content of an annotation file; incomplete annotations are added to ``skipped``."""
    text = read_text(file, MOST_BYTES)
    require_memory(MEMORY_FACTOR * len(text), str(file))
    try:
        document = _DOCUMENT.validate_json(text, strict=True)
    except ValidationError:
        document = _sound_parts(text, file, skipped)
    if not document.images:
        raise UserError(f"{file} has no images")
    if not document.categories:
        raise UserError(f"{file} has no categories")
    return document


def _sound_parts(text: str, file: Path, skipped: list[str]) -> _Document:
    """The same for a file with errors, one annotation at a time, which takes longer."""
    hint = "it needs images, categories and annotations in COCO's format"
    found = parse_json(text, _UNCHECKED, f"{file} is not a COCO annotation file", hint)
    annotations = []
    for number, fields in enumerate(found.annotations):
        try:
            annotations.append(_ANNOTATION.validate_json(json.dumps({"id": number, **fields}), strict=True))
        except ValidationError as error:
            skipped.append(f"annotation {fields.get('id', number)} of {file}: {wrong_fields(error)}")
    return _Document(found.images, found.categories, annotations)


def _labels(document: _Document, file: Path) -> dict[int, int]:
    """The class number of each category, by id."""
    for what in ("id", "name"):
        values = [getattr(category, what) for category in document.categories]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise UserError(f"{file}: two categories have the {what} {twice!r}: give each one its own")
    return {category.id: label for label, category in enumerate(document.categories)}


def _marked(annotation: _Annotation, image: _Image, labels: dict[int, int]) -> Marked:
    """One object.

    Raises:
        ValueError: says what is wrong with it.
    """
    if annotation.category_id not in labels:
        raise ValueError(f"there is no category {annotation.category_id}")
    if len(annotation.bbox) != 4:
        raise ValueError("a box is four numbers: left, top, width and height")
    left, top, width, height = annotation.bbox
    box = (left, top, left + width, top + height)
    if problem := box_problem(box, image.height, image.width):
        raise ValueError(problem)
    mask = _mask(annotation, image)
    return Marked(box, labels[annotation.category_id], crowd=annotation.iscrowd != 0, mask=mask)


def _mask(annotation: _Annotation, image: _Image) -> Mask | None:
    found = annotation.segmentation
    if not found:
        return None
    if isinstance(found, _Runs):
        return mask_of_runs(found.counts, found.size, image.height, image.width)
    return mask_of_polygons(found, image.height, image.width)


def _find(request: Request) -> tuple[Path, Path]:
    """The annotation file of the wanted part, and the folder of its images."""
    folder = request.folder()
    if (found := _official(folder)) is not None:
        part = "val" if request.part == "test" else "train"
        if part not in found:
            raise request.missing_part(f"{folder / 'annotations'} has no instances_{part}*.json")
        return found[part]
    if kind_of(folder / _INSTANCES) is not None:
        if request.part == "test":
            raise request.missing_part(f"{folder} has only one part; parts are folders, train/ and test/")
        return folder / _INSTANCES, folder / "images"
    parts = {name: folder / name for name in ("train", *_TESTS) if kind_of(folder / name / _INSTANCES)}
    if "train" not in parts:
        raise UserError(
            f"{folder} is not in the COCO format: it needs {_INSTANCES} and images/, or both in train/ and test/, or "
            "annotations/instances_train2017.json with train2017/"
        )
    if request.part != "test":
        return parts["train"] / _INSTANCES, parts["train"] / "images"
    test = next((parts[name] for name in _TESTS if name in parts), None)
    if test is None:
        raise request.missing_part(f"{folder} has neither test/ nor val/ with {_INSTANCES}")
    return test / _INSTANCES, test / "images"


def _official(folder: Path) -> dict[str, tuple[Path, Path]] | None:
    """Part -> annotation file and images, if a folder has the published layout of COCO; else None.

    If there are several years, the last one is used.
    """
    annotations = folder / "annotations"
    if kind_of(annotations) != "folder":
        return None
    found = defaultdict(list)
    for file in sorted(annotations.iterdir()):
        if match := _OFFICIAL.fullmatch(file.name):
            part, year = match.groups()
            found[part].append((file, folder / f"{part}{year}"))
    return {part: files[-1] for part, files in found.items()} or None
