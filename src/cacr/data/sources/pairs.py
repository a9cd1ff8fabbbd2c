"""Images with captions, listed in a .jsonl file."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from cacr.data.files import FileSource
from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Request
from cacr.data.source import Captions
from cacr.errors import UserError
from cacr.reading.documents import parse_json
from cacr.reading.files import numbered_lines

_TEST_FILES = ("test.jsonl", "val.jsonl")


@SOURCES.register("pairs")
def open_pairs(request: Request) -> FileSource:
    """A .jsonl file with image (a file next to it) and captions (a list of sentences) on every line."""
    file = request.file()
    if request.part == "test":
        file = _test_file(request, file)
    names: list[str] = []
    captions: list[Captions] = []
    for number, line in numbered_lines(file):
        name, sentences = _parse(line, f"{file}, line {number}")
        names.append(name)
        captions.append(sentences)
    if not names:
        raise UserError(f"{file} has no images")
    return FileSource(request.spec, file.parent, names, captions=captions)


def _test_file(request: Request, file: Path) -> Path:
    for name in _TEST_FILES:
        if file.name == "train.jsonl" and (file.parent / name).is_file():
            return file.parent / name
    raise request.missing_part("there is no test.jsonl or val.jsonl next to train.jsonl")


@dataclass(frozen=True)
class _Line:
    image: str
    captions: str | list[str]


_LINE = TypeAdapter(_Line)


def _parse(line: str, where: str) -> tuple[str, Captions]:
    try:
        entry = parse_json(line, _LINE, where)
    except UserError as error:
        raise UserError(f'{error}; expected {{"image": "FILE", "captions": ["SENTENCE", ...]}}') from None
    sentences = [entry.captions] if isinstance(entry.captions, str) else entry.captions
    if not sentences:
        raise UserError(f"{where}: the list of captions is empty")
    return inside(entry.image, where), tuple(sentences)
