"""Draw the contact sheet of ``cacr views``: the views that an encoder will see."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacr.errors import UserError
from cacr.files import atomic_path, require_new_file
from cacr.reporting import PICTURES
from cacr.training.announce import views_text
from cacr.training.building.build import make_views_of
from cacr.training.building.data import prepare_data
from cacr.training.cost.place import Place
from cacr.training.cost.timed import preferred
from cacr.training.loop.first_batch import first_batch
from cacr.training.settings.check import check_settings
from cacr.training.settings.of_run import completed
from cacr.views import contact_sheet

MOST_PIXELS = 80_000_000
"""Largest contact sheet: picture viewers can open it, and it always fits into memory."""


def draw_sheet(values: Mapping[str, Any], out: Path, *, images: int = 8) -> str:
    """Draw the first images of a run with these settings, and all their views, into the picture ``out``.

    Args:
        values: settings of ``cacr pretrain`` by name. They are resolved as for a run; if the view size depends on the
            speed of the machine, a fast machine is assumed.
        out: the picture.
        images: number of images of the run's first batch; each one is a row.

    Returns:
        A description of the views.

    Raises:
        UserError: ``out`` exists or cannot be written, or a run could not start with these settings.
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
            f"the picture would have {pixels / 1e6:,.0f} million pixels, more than the limit of "
            f"{MOST_PIXELS / 1e6:,.0f} million: show fewer images (--number), fewer --views, or smaller images"
        )
    batch = first_batch(settings, data.training, images=images, world_size=place.world_size)
    sheet = contact_sheet(batch.images, batch.views, views.mean, views.std)
    try:
        with atomic_path(out) as temporary:
            sheet.save(temporary)
    except ValueError as error:  # such as more pixels than the format can hold
        raise UserError(f"cannot write the picture {out}: {error}") from None
    return views_text(settings)
