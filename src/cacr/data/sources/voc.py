"""Images with boxes in the Pascal VOC format."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from cacr.data.annotated import AnnotatedSource, Marked, box_problem, objects_of
from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Part, Request
from cacr.data.scan import IMAGE_SUFFIXES, sub_folders
from cacr.decode import open_image
from cacr.errors import UnreadableImageError, UserError
from cacr.files import printable
from cacr.reading.files import kind_of, numbered_lines, read_text
from cacr.reading.foreign import reason

MOST_BYTES = 2**22
"""Largest annotation file, in bytes; those of Pascal VOC have a few thousand."""

_PARTS = ("JPEGImages", "Annotations")
_YEAR = re.compile(r"VOC\d{4}")


@SOURCES.register("voc")
def open_voc(request: Request) -> AnnotatedSource:
    """Images with boxes: JPEGImages/, Annotations/ and ImageSets/, or VOC2007/ and VOC2012/ with these."""
    folder = request.folder()
    names: list[str] = []
    found: list[tuple[int, int, list[_Box]]] = []
    skipped: list[str] = []
    years = _years(folder)
    tested = any(kind_of(_lists(year) / "test.txt") == "file" for year in years)
    for year in years:
        files = {path.stem: path.name for path in _listed(year / _PARTS[0])}
        prefix = "" if year == folder else f"{year.name}/"
        for name in _images(year, request, tested):
            image = files.get(name, f"{name}.jpg")
            annotation = year / _PARTS[1] / f"{name}.xml"
            try:
                found.append(_read(annotation, year / _PARTS[0] / image, skipped))
            except ValueError as error:  # without an annotation, the objects of the image are unknown
                skipped.append(f"{annotation}: {error}")
            else:
                names.append(f"{prefix}{_PARTS[0]}/{image}")
    if not names and skipped:
        raise UserError(f"none of {len(skipped):,} annotation files of {folder} can be used: {skipped[0]}")
    if not names and request.part != "test":
        places = ", ".join(str(year / _PARTS[1]) for year in years)
        raise UserError(f"there are no annotations in {places}: every image needs a file NAME.xml there")
    if not names:
        raise request.missing_part(f"{folder} lists no images for it")
    categories = sorted({box.name for _, _, boxes in found for box in boxes})
    number = {name: label for label, name in enumerate(categories)}
    objects = [
        objects_of(height, width, [Marked(b.corners, number[b.name], difficult=b.difficult) for b in boxes])
        for height, width, boxes in found
    ]
    return AnnotatedSource(request.spec, folder, names, objects, categories, skipped=skipped)


class _Box:
    """One object of an annotation file.

    The file counts pixels from 1; its last column and row belong to the object.
    """

    def __init__(self, element: ElementTree.Element) -> None:
        self.name = (element.findtext("name") or "").strip()
        box = element.find("bndbox")
        if not self.name or box is None:
            raise ValueError("an object needs a name and a bndbox")
        left, top, right, bottom = (_number(box, side) for side in ("xmin", "ymin", "xmax", "ymax"))
        self.corners = (left - 1, top - 1, right, bottom)
        self.difficult = (element.findtext("difficult") or "0").strip() == "1"


def _number(element: ElementTree.Element, name: str) -> float:
    text = element.findtext(name)
    if text is None:
        raise ValueError(f"the box has no {name}")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} is not a number: {printable(text)[:50]}") from None


def _read(file: Path, image: Path, skipped: list[str]) -> tuple[int, int, list[_Box]]:
    """Height, width and valid boxes of an annotation file; others are added to ``skipped``.

    Raises:
        ValueError: says why nothing of the file can be used.
    """
    root = _parsed(file)
    height, width = _size(root, image)
    boxes = []
    for number, element in enumerate(root.iter("object"), 1):
        try:
            box = _Box(element)
        except ValueError as error:
            skipped.append(f"object {number} of {file}: {error}")
            continue
        problem = box_problem(box.corners, height, width) if height else None
        if problem is None:
            boxes.append(box)
        else:
            skipped.append(f"object {number} of {file}: {problem}")
    return height, width, boxes


def _parsed(file: Path) -> ElementTree.Element:
    if kind_of(file) is None:
        raise ValueError("there is no such file")
    text = read_text(file, MOST_BYTES)
    # With entities, a short file can fill the memory.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError(f"{file} defines entities, which annotations do not need: it is not read")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not valid XML: {reason(error)}") from None


def _size(root: ElementTree.Element, image: Path) -> tuple[int, int]:
    """Height and width from the annotation, else from the image; zeros if neither can be read."""
    texts = [(root.findtext(f"size/{name}") or "").strip() for name in ("height", "width")]
    if all(text.isdecimal() and 0 < len(text) < 6 and int(text) > 0 for text in texts):
        return int(texts[0]), int(texts[1])
    try:
        with open_image(image, str(image)) as opened:
            return opened.height, opened.width
    except UnreadableImageError:
        return 0, 0


def _years(folder: Path) -> list[Path]:
    """The folder itself, or the folders of the years in it."""
    if all(kind_of(folder / name) == "folder" for name in _PARTS):
        return [folder]
    for place in (folder, folder / "VOCdevkit"):
        years = [path for path in sub_folders(place) if _YEAR.fullmatch(path.name)] if place.is_dir() else []
        if years:
            return years
    raise UserError(
        f"{folder} is not in the Pascal VOC format: it needs {' and '.join(f'{n}/' for n in _PARTS)}, or folders "
        "such as VOC2007/ with these"
    )


def _lists(year: Path) -> Path:
    return year / "ImageSets" / "Main"


def _images(year: Path, request: Request, tested: bool) -> Iterator[str]:
    """Names of the images of a part, without suffix; ``tested``: some year has a list of test images."""
    if kind_of(_lists(year)) is None:
        if request.part != "test":
            yield from sorted(path.stem for path in _listed(year / _PARTS[1], (".xml",)))
        return
    for file in _lists_of(year, request.part, tested):
        names = [inside(line.split()[0], f"{file}, line {number}") for number, line in numbered_lines(file)]
        published = any(kind_of(year / _PARTS[1] / f"{name}.xml") is not None for name in names)
        if (
            published or request.part != "test"
        ):  # annotations of the test images of later years are not published
            yield from names


def _lists_of(year: Path, part: Part, tested: bool) -> list[Path]:
    """The lists of a part: trainval and test; if no year has a test list, train and val."""
    names: dict[str, tuple[str, ...]] = {"train": ("train",), "test": ("val",)}
    if tested:
        names = {"train": ("trainval", "train"), "test": ("test",)}
    wanted = names["test" if part == "test" else "train"]
    found = [_lists(year) / f"{name}.txt" for name in wanted]
    found = [file for file in found if kind_of(file) == "file"][:1]
    if not found and part != "test" and kind_of(_lists(year) / "trainval.txt") == "file":
        return [_lists(year) / "trainval.txt"]
    return found


def _listed(folder: Path, suffixes: tuple[str, ...] = tuple(IMAGE_SUFFIXES)) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix.lower() in suffixes]
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}") from None
