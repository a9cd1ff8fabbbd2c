"""Test images of protocols that do not train on images."""

from typing import Any

from cacr.config import EvaluateSettings
from cacr.data import MissingPartError, Source, StreamSource, most_captions, open_source, prepare
from cacr.data.captions import with_all_captions, with_sentences
from cacr.data.named_images import labelled_images
from cacr.errors import UserError
from cacr.evaluation.data.labelled import LabelledData, labels_of, metric_of


def open_judged(settings: EvaluateSettings, *, captions: bool) -> LabelledData:
    """The images of ``test_data``, else the test part of ``data``, else all of ``data``.

    Args:
        settings: Names the data.
        captions: Whether the images need captions; otherwise they need labels.

    Raises:
        UserError: the data does not exist, or has no captions or no labels.
    """
    source, split = _open(settings)
    if captions:
        source = _with_captions(source)
    else:
        source = labelled_images(source, settings.labels)
        labels_of(source)
        source = source.named()
    prepared = prepare(source, max_unreadable=settings.max_unreadable)
    classes = len(prepared.source.class_names or ())
    return LabelledData(
        prepared.source, prepared.source, split, classes, prepared.problems, metric_of(settings)
    )


def _open(settings: EvaluateSettings) -> tuple[Source, str]:
    """The images, and their description; a list of images means those of ``data``, in any part."""
    spec = settings.test_data or settings.data
    where: dict[str, Any] = {"root": settings.data_root, "download": settings.download}
    if settings.images is not None and settings.test_data is None:
        return open_source(spec, part="train", images=settings.images, **where), f"listed images of {spec}"
    try:
        return open_source(spec, part="test", **where), f"the test part of {spec}"
    except MissingPartError:
        return open_source(spec, part="train", **where), f"all images of {spec}"


def _with_captions(source: Source) -> Source:
    """A source with captions for each image; those of a stream are read together with its images."""
    if isinstance(source, StreamSource) and most_captions(source):
        return with_all_captions(source)
    if source.captions is None:
        has = "labels" if source.labels is not None else "images only"
        raise UserError(
            f"{source.name} has no captions ({has}): the protocol captions needs pairs:FILE.jsonl, or wds: or hf: "
            "data with texts; for labelled images use the protocol zeroshot"
        )
    return with_sentences(source)
