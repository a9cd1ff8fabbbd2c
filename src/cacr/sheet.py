"""The contact sheet: what an encoder will see."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacr.data import open_source, prepare
from cacr.errors import UserError
from cacr.randomness import numpy_generator
from cacr.training.resolve import describe, usual_preset, usual_size
from cacr.views import PRESETS, Views, contact_sheet


def draw_sheet(
    data: str,
    out: Path,
    *,
    preset: str | None = None,
    views: int = 5,
    images: int = 8,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    data_root: Path = Path("data"),
    download: bool = False,
) -> None:
    """Draw views of a few images of ``data`` into the picture ``out``, a row for each image."""
    source = prepare(open_source(data, root=Path(data_root), download=download)).source
    size = usual_size(describe(source).side)
    chosen = PRESETS[preset or usual_preset(data, size)]
    if preset is None:
        chosen = chosen.resized(size)
    chosen = chosen.with_options(**(options or {}))
    rng = numpy_generator("sheet", seed)
    numbers = rng.choice(len(source), size=min(images, len(source)), replace=False)
    originals = [source.read(int(number)) for number in numbers]
    made = Views(chosen.for_views(views), chosen.mean, chosen.std)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        contact_sheet(originals, made, seed=seed).save(out)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write the picture {out}: {error}") from None
