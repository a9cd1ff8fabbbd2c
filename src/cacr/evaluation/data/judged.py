"""Images to be judged on where nothing is learned from images."""

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
        captions: Whether the images need captions; else they need labels.

    Raises:
        UserError: there is no such data, or it has no captions or no labels.
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
    """The images, and in words which they are; a list of images means those of ``data``, whatever their part."""
    spec = settings.test_data or settings.data
    where: dict[str, Any] = {"root": settings.data_root, "download": settings.download}
    if settings.images is not None and settings.test_data is None:
        return open_source(spec, part="train", images=settings.images, **where), f"listed images of {spec}"
    try:
        return open_source(spec, part="test", **where), f"the test part of {spec}"
    except MissingPartError:
        return open_source(spec, part="train", **where), f"all images of {spec}"


def _with_captions(source: Source) -> Source:
    """A source with a caption for each image; those of a stream come with its images, and are read."""
    if isinstance(source, StreamSource) and most_captions(source):
        return with_all_captions(source)
    if source.captions is None:
        has = "labels" if source.labels is not None else "images only"
        raise UserError(
            f"{source.name} has no captions ({has}): the protocol captions needs pairs:FILE.jsonl, or wds: or hf: "
            "data with a text for each image; of labelled images measure the protocol zeroshot"
        )
    return with_sentences(source)
