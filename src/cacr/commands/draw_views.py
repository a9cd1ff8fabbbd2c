"""The contact sheet: what an encoder will see."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacr.errors import UserError
from cacr.files import appearing, require_new_file
from cacr.reporting import PICTURES
from cacr.training.announce import views_text
from cacr.training.build import make_views_of
from cacr.training.check import check_settings
from cacr.training.data import prepare_data
from cacr.training.first_batch import first_batch
from cacr.training.place import Place
from cacr.training.settings import completed
from cacr.training.timed import preferred
from cacr.views import contact_sheet

MOST_PIXELS = 80_000_000
"""Of a contact sheet: what picture viewers still open, and memory always has room for."""


def draw_sheet(values: Mapping[str, Any], out: Path, *, images: int = 8) -> str:
    """Draw what a run with these settings sees first into the picture ``out``: images and all their views.

    Args:
        values: settings of ``cacr pretrain`` by name; they are resolved as for a run, and where its size depends on the
            speed of the machine, as for a fast one.
        out: the picture.
        images: of the run's first batch, a row for each.

    Returns:
        What the views are, in words.

    Raises:
        UserError: ``out`` exists, or cannot be written; or no run could start with these settings.
    """
    require_new_file(out, PICTURES)
    asked = check_settings(completed(values))
    data = prepare_data(asked)
    place = Place.of(asked)
    settings = place.resolved(preferred(asked, data.described, place), data.described)
    views = make_views_of(settings)
    side = max(96, *(view.size for view in views.augmentations))
    pixels = min(images, settings.batch_size) * (settings.views + 1) * side**2
    if pixels > MOST_PIXELS:
        raise UserError(
            f"the picture would have {pixels / 1e6:,.0f} million pixels, and at most {MOST_PIXELS / 1e6:,.0f} million "
            "can be drawn: show fewer images (--number) or --views, or smaller ones"
        )
    batch = first_batch(settings, data.training, images=images, world_size=place.world_size)
    sheet = contact_sheet(batch.images, batch.views, views.mean, views.std)
    try:
        with appearing(out) as temporary:
            sheet.save(temporary)
    except ValueError as error:  # such as more pixels than the format can hold
        raise UserError(f"cannot write the picture {out}: {error}") from None
    return views_text(settings)
