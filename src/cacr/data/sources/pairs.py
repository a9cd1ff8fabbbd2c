"""Images with captions, listed in a .jsonl file."""

import json
from pathlib import Path

from cacr.data.files import FileSource
from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Request
from cacr.data.source import Captions
from cacr.errors import UserError

_TEST_FILES = ("test.jsonl", "val.jsonl")


@SOURCES.register("pairs")
def open_pairs(request: Request) -> FileSource:
    """A .jsonl file with image (a file beside it) and captions (a list of sentences) on every line."""
    file = request.file()
    if request.part == "test":
        file = _test_file(request, file)
    names: list[str] = []
    captions: list[Captions] = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                name, sentences = _parse(line, f"{file}, line {number}")
                names.append(name)
                captions.append(sentences)
    if not names:
        raise UserError(f"{file} names no images")
    return FileSource(request.spec, file.parent, names, captions=captions)


def _test_file(request: Request, file: Path) -> Path:
    for name in _TEST_FILES:
        if file.name == "train.jsonl" and (file.parent / name).is_file():
            return file.parent / name
    raise request.missing_part("there is no test.jsonl or val.jsonl beside a train.jsonl")


def _parse(line: str, where: str) -> tuple[str, Captions]:
    try:
        entry = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{where}: not a JSON object: {error}") from error
    name, captions = (entry.get("image"), entry.get("captions")) if isinstance(entry, dict) else (None, None)
    sentences = [captions] if isinstance(captions, str) else captions
    sound = isinstance(sentences, list) and sentences and all(isinstance(text, str) for text in sentences)
    if not isinstance(name, str) or not sound:
        expected = '{"image": "FILE", "captions": ["SENTENCE", ...]}'
        raise UserError(f"{where}: expected {expected}, found {line[:80]!r}")
    return inside(name, where), tuple(sentences or ())
