"""Classes as words: readable names, sentences around them, and one unit vector for each class."""

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
    """How class names become sentences.

    Attributes:
        templates: Sentences with ``{}`` in the place of the name; the class is the mean of all of them. Left out:
            three plain ones.
        names: What classes are called, where their own names are no words.
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
            templates, one a line; or a ``.json`` file ``{"templates": [...], "names": {"n01440764": "tench"}}``,
            either of which may be left out.

    Raises:
        UserError: the file is damaged, or a template has another field than ``{}``.
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
        raise UserError(
            f"{path} must hold from 1 to {MOST_TEMPLATES:,} templates, not {len(prompts.templates):,}"
        )
    for template in prompts.templates:
        if (wrong := _wrong_field(template)) is not None:
            raise UserError(f"{path}: the template {template[:100]!r} {wrong}")


def _wrong_field(template: str) -> str | None:
    """What is wrong with a template in words; None where it has the field ``{}`` and no other."""
    try:
        fields = [
            name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            for _, name, form, conversion in string.Formatter().parse(template)
            if name is not None
        ]
    except ValueError as error:
        return f"cannot be read ({error}): write {{}} where the name of the class belongs"
    unknown = [name for name in fields if name]
    if unknown:
        return f"has the unknown field {{{unknown[0]}}}: write {{}} where the name of the class belongs"
    return None if fields else "has no {}, the place where the name of the class belongs"


def readable(name: str, prompts: Prompts = _PLAIN) -> str:
    """A class name as words: as the prompts or ImageNet's synsets have it, else without underscores and dashes."""
    known = prompts.names.get(name) or _imagenet().names.get(name)
    return known or " ".join(name.replace("_", " ").replace("-", " ").split()) or name


def class_sentences(names: Sequence[str], prompts: Prompts) -> list[str]:
    """Every name in every template, the templates of the first name first."""
    return [template.replace("{}", name) for name in names for template in prompts.templates]


@torch.inference_mode()
def class_vectors(side: TextSide, names: Sequence[str], prompts: Prompts) -> Tensor:
    """Unit vectors (classes, dim): the mean of the unit vectors of all templates, made a unit vector again.

    Args:
        side: Encodes sentences.
        names: Of the classes, as words.
        prompts: The sentences around them.
    """
    sentences = class_sentences(names, prompts)
    found = side.of_texts(sentences).reshape(len(names), len(prompts.templates), -1)
    return normalize(found.mean(dim=1), dim=1)
