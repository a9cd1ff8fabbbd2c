"""Classes as words: readable names, prompts, and one unit vector per class."""

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.nn.functional import normalize

from cacr.encoders.text import TextSide
from cacr.errors import UserError
from cacr.reading.documents import parse_json, read_json
from cacr.reading.files import numbered_lines, user_path

PLAIN, IMAGENET = "plain", "imagenet"
"""Prompts by name; anything else is a file."""

MOST_TEMPLATES = 1000


@dataclass(frozen=True)
class Prompts:
    """How class names become prompts.

    Attributes:
        templates: Sentences with ``{}`` for the name; the vector of a class is the mean over all of them. Default:
            three plain ones.
        names: Readable names of classes whose own names are not words.
        source: Where they come from.
    """

    templates: list[str] = field(default_factory=lambda: ["a photo of a {}.", "a picture of a {}.", "{}"])
    names: dict[str, str] = field(default_factory=dict)
    source: str = ""


_PROMPTS = TypeAdapter(Prompts)
_PLAIN = Prompts()


def read_prompts(name: str) -> Prompts:
    """Prompts by name or from a file.

    Args:
        name: ``plain``; ``imagenet``, CLIP's 80 templates and its names of ImageNet's classes; a ``.txt`` file of
            templates, one per line; or a ``.json`` file ``{"templates": [...], "names": {"n01440764": "tench"}}``, in
            which both parts are optional.

    Raises:
        UserError: the file is damaged, or a template has a field other than ``{}``.
    """
    if name == PLAIN:
        return _PLAIN
    if name == IMAGENET:
        return _imagenet()
    path = user_path(name)
    if path.suffix.lower() == ".json":
        prompts = read_json(path, _PROMPTS)
    else:
        prompts = Prompts([line.strip() for _, line in numbered_lines(path) if line.strip()])
    _check(prompts, path)
    return prompts


@cache
def _imagenet() -> Prompts:
    text = (files("cacr") / "features" / "prompts" / "imagenet.json").read_text(encoding="utf-8")
    return parse_json(text, _PROMPTS, "the package's imagenet.json is damaged")


def _check(prompts: Prompts, path: Path) -> None:
    if not 0 < len(prompts.templates) <= MOST_TEMPLATES:
        raise UserError(f"{path} must have 1 to {MOST_TEMPLATES:,} templates, not {len(prompts.templates):,}")
    for template in prompts.templates:
        if (wrong := _wrong_field(template)) is not None:
            raise UserError(f"{path}: the template {template[:100]!r} {wrong}")


def _wrong_field(template: str) -> str | None:
    """Describe what is wrong with a template; None if it has the field ``{}`` and no other."""
    try:
        fields = [
            name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            for _, name, form, conversion in string.Formatter().parse(template)
            if name is not None
        ]
    except ValueError as error:
        return f"cannot be read ({error}): write {{}} for the name of the class"
    unknown = [name for name in fields if name]
    if unknown:
        return f"has the unknown field {{{unknown[0]}}}: write {{}} for the name of the class"
    return None if fields else "has no {} for the name of the class"


def readable(name: str, prompts: Prompts = _PLAIN) -> str:
    """A class name as words: from the prompts or ImageNet's synsets, else without underscores and dashes."""
    known = prompts.names.get(name) or _imagenet().names.get(name)
    return known or " ".join(name.replace("_", " ").replace("-", " ").split()) or name


def class_sentences(names: Sequence[str], prompts: Prompts) -> list[str]:
    """Every name in every template; all templates of the first name come first."""
    return [template.replace("{}", name) for name in names for template in prompts.templates]


@torch.inference_mode()
def class_vectors(side: TextSide, names: Sequence[str], prompts: Prompts) -> Tensor:
    """Unit vectors (classes, dim): the mean of the unit vectors of all templates, normalised again.

    Args:
        side: Encodes text.
        names: Names of the classes, as words.
        prompts: The templates.
    """
    sentences = class_sentences(names, prompts)
    found = side.of_texts(sentences).reshape(len(names), len(prompts.templates), -1)
    return normalize(found.mean(dim=1), dim=1)
