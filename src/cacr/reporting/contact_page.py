"""A page of pictures in sections, as one HTML file that opens offline: groups, or a selection."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template

import cacr
from cacr.data import UnreadableImageError
from cacr.features.collection import Collection
from cacr.files import printable, write_atomically
from cacr.sorting import Groups, Selection
from cacr.views import fitted

SIDE = 144
"""Side of a picture, in pixels."""

MOST_PICTURES = 1_000
"""Largest number of pictures on one page: about 5 MB."""

GROUP_PICTURES = 24
"""Largest number of pictures per group: those nearest to its centre."""

_QUALITY = 80


@dataclass(frozen=True)
class Section:
    """Pictures under a heading.

    Attributes:
        title: The heading; empty for none.
        text: A line under it.
        images: Numbers of the images.
        captions: One line of text per image.
    """

    title: str
    text: str
    images: Sequence[int]
    captions: Sequence[str]


def write_selection_page(out: Path, found: Collection, selection: Selection) -> None:
    """Write the contact sheet of a selection; duplicates are shown in groups, the image to keep first."""
    count = len(selection.chosen)
    if selection.kept is None:
        captions = [f"{number + 1}. {score:.3g}" for number, score in enumerate(selection.score)]
        sections = [Section("", "", selection.chosen.tolist(), captions)]
    else:
        copies: dict[int, list[tuple[int, float]]] = {}
        rows = zip(selection.kept.tolist(), selection.chosen.tolist(), selection.score.tolist(), strict=True)
        for kept, copy, score in rows:
            copies.setdefault(kept, []).append((copy, score))
        sections = [
            Section("", "", [kept, *(n for n, _ in own)], ["kept", *(f"copy, {s:.3f}" for _, s in own)])
            for kept, own in copies.items()
        ]
    title = f"{count:,} of {len(found):,} images, by {selection.by}"
    _write(out, found, title, f"Under each image: {selection.meaning}.", sections)


def write_groups_page(out: Path, found: Collection, groups: Groups) -> None:
    """Write the gallery of groups: the images nearest to the centre of each group."""
    shown = max(3, min(GROUP_PICTURES, MOST_PICTURES // len(groups.groups)))
    sections = []
    for group in groups.groups:
        text = f"{len(group.images):,} images"
        if group.labelled:
            text += f"; {group.agreeing:,} of {group.labelled:,} labelled images have this label"
        images = group.images[:shown].tolist()
        sections.append(Section(group.name, text, images, [found.label(n) or "" for n in images]))
    title = f"{len(found):,} images in {len(groups.groups)} groups"
    how = "was chosen automatically" if groups.chosen else "was given"
    clear = f"Silhouette: {groups.silhouette:.2f} (-1 to 1; larger means clearer groups). The number of groups {how}."
    _write(
        out, found, title, f"{clear} The page shows the images nearest to the centre of each group.", sections
    )


def _write(out: Path, found: Collection, title: str, text: str, sections: Sequence[Section]) -> None:
    left, body = MOST_PICTURES, []
    for section in sections:
        images = list(zip(section.images, section.captions, strict=True))[:left]
        left -= len(images)
        if images:
            body.append(_section(found, section, images))
    hidden = sum(len(section.images) for section in sections) - (MOST_PICTURES - left)
    if hidden:
        body.append(f'<p class="soft">{hidden:,} more images are in the list, but not on this page.</p>')
    style = "\n".join(_web(name) for name in ("page.css", "contact.css"))
    page = Template(_web("contact.html")).substitute(
        title=escape(printable(title)),
        text=escape(printable(text)),
        data=escape(printable(found.source.name)),
        style=style,
        body="\n".join(body),
        version=cacr.__version__,
    )
    write_atomically(out, page.encode())


def _section(found: Collection, section: Section, images: Sequence[tuple[int, str]]) -> str:
    cells = []
    for number, caption in images:
        name = printable(found.name(number))
        short = escape(name.rsplit("/", 1)[-1])
        picture = _picture(found, number)
        shown = f'<img src="{picture}" alt="{short}">' if picture else '<span class="none">unreadable</span>'
        line = f"<b>{escape(printable(caption))}</b>" if caption else ""
        cells.append(f'<li title="{escape(name)}">{shown}{line}<span>{short}</span></li>')
    heading = f"<h2>{escape(printable(section.title))}</h2>" if section.title else ""
    text = f'<p class="soft">{escape(printable(section.text))}</p>' if section.text else ""
    return f'<section>{heading}{text}<ul class="contact">{"".join(cells)}</ul></section>'


def _picture(found: Collection, number: int) -> str:
    """An image as a data URI; empty if it is no longer readable."""
    try:
        image = fitted(found.source.read(number, SIDE), SIDE)
    except UnreadableImageError:
        return ""
    file = BytesIO()
    image.save(file, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + b64encode(file.getvalue()).decode()


def _web(name: str) -> str:
    return (files("cacr.reporting") / "web" / name).read_text(encoding="utf-8")
