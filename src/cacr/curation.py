"""Python functions with the names of the commands that sort images: select, predict, group."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from cacr.data.pixels import DUPLICATE
from cacr.errors import UserError
from cacr.features.collection import Collection, open_images
from cacr.features.words import PLAIN, read_prompts
from cacr.files import require_new_file
from cacr.reporting import write_groups_page, write_selection_page
from cacr.sorting import Groups, Guesses, Selection, group_images, predict_labels, select_images
from cacr.sorting.by_words import class_list, predict_by_words
from cacr.sorting.lists import write_groups, write_guesses, write_selection
from cacr.sorting.select import WAYS
from cacr.terminal import bar

AnyPath = str | PathLike[str]


def select(
    *,
    run: AnyPath,
    data: AnyPath,
    out: AnyPath,
    by: str = "typical",
    number: int | None = None,
    threshold: float = DUPLICATE,
    seed: int = 0,
    page: bool = True,
    **settings: Any,
) -> tuple[Collection, Selection]:
    """Select images: which to label first, which to check, which to remove.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: a ``.csv`` file for their names, which must not exist yet; a contact sheet (``.html``) goes next to it.
        by: ``typical``, ``coverage``, ``k-means++``, ``outliers``, ``duplicates`` or ``uncertain``
            (``cacr list selectors``).
        number: number of images to select; default: 100, or all duplicates.
        threshold: images are duplicates if their pixels correlate at least this much.
        seed: seed of random draws.
        page: write the contact sheet too.
        settings: ``images``, ``labels``, ``features``, ``cache``, ``part``, ``data_root``, ``download``,
            ``max_unreadable``, ``reader`` and ``reader_components``, as for :func:`search`.

    Returns:
        The images, and which of them were selected.
    """
    targets = _new_list(out, page)
    WAYS[by]  # report an unknown name before anything is encoded
    found = _collect(run, data, settings)
    with bar("selecting") as progress:
        selection = select_images(
            found, by=by, number=number, threshold=threshold, seed=seed, progress=progress
        )
    write_selection(targets[0], found, selection)
    for target in targets[1:]:
        write_selection_page(target, found, selection)
    return found, selection


def predict(
    *,
    run: AnyPath,
    data: AnyPath,
    out: AnyPath,
    labels: AnyPath | None = None,
    classes: str | None = None,
    prompts: str = PLAIN,
    by: str = "auto",
    all: bool = False,
    seed: int = 0,
    **settings: Any,
) -> tuple[Collection, Guesses]:
    """Predict the labels of images from a few labels, or from the names of classes.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: a ``.csv`` file for the predictions, which must not exist yet; the least certain come first.
        labels: a ``.csv`` file with the columns ``path`` and ``label``; default: the labels of the data itself.
        classes: names of classes, separated by commas, instead of labels; for an image-text encoder.
        prompts: prompt templates for ``classes``: ``plain``, ``imagenet``, or a file.
        by: the classifier: ``auto``, ``knn-1``, ``knn-5``, ``knn-20`` or ``linear``.
        all: predict labelled images too, to find wrong labels.
        seed: seed of the folds and of the linear classifier.
        settings: as for :func:`select`.

    Returns:
        The images, and the predictions.
    """
    (target,) = _new_list(out, page=False)
    if classes is not None:
        names = class_list(classes)
        if labels is not None or all or by != "auto":
            raise UserError("classes predicts from words only: leave out labels, by and all")
        read_prompts(prompts)  # report problems before anything is encoded
        found = _collect(run, data, settings, words=True)
        guesses = predict_by_words(found, names, prompts=prompts)
        write_guesses(target, found, guesses)
        return found, guesses
    found = _collect(run, data, {**settings, "labels": labels})
    with bar("comparing classifiers") as progress:
        guesses = predict_labels(found, by=by, everything=all, seed=seed, progress=progress)
    write_guesses(target, found, guesses)
    return found, guesses


def group(
    *,
    run: AnyPath,
    data: AnyPath,
    out: AnyPath,
    number: int | Literal["auto"] = "auto",
    seed: int = 0,
    page: bool = True,
    **settings: Any,
) -> tuple[Collection, Groups]:
    """Divide images into groups of similar images.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: a ``.csv`` file for the groups, which must not exist yet; a gallery (``.html``) is written next to it.
        number: number of groups, or ``auto``.
        seed: seed of the first centres.
        page: write the gallery too.
        settings: as for :func:`select`.

    Returns:
        The images, and the groups.
    """
    targets = _new_list(out, page)
    found = _collect(run, data, settings)
    with bar("grouping") as progress:
        groups = group_images(found, number=number, seed=seed, progress=progress)
    write_groups(targets[0], found, groups)
    for target in targets[1:]:
        write_groups_page(target, found, groups)
    return found, groups


def _new_list(out: AnyPath, page: bool) -> list[Path]:
    """The paths of a list and its page; refuse existing files before anything is computed."""
    target = Path(out)
    require_new_file(target, (".csv",))
    extra = [target.with_suffix(".html")] if page else []
    for each in extra:
        require_new_file(each, (".html",))
    return [target, *extra]


def _collect(run: AnyPath, data: AnyPath, settings: Mapping[str, Any], *, words: bool = False) -> Collection:
    """Images with their features and labels; ``settings`` are those of opening and of encoding.

    With ``words``, refuse an encoder that cannot encode text before anything is encoded.
    """
    encoding = ("features", "cache", "reader", "reader_components", "max_unreadable")
    opened = open_images(
        run, str(data), **{name: value for name, value in settings.items() if name not in encoding}
    )
    if words:
        opened.encoder.text  # noqa: B018  (raises an error if there is no text encoder)
    with bar("encoding") as progress:
        return opened.collect(
            progress=progress, **{name: settings[name] for name in encoding if name in settings}
        )
