"""The functions with the commands' names that sort a collection of images: select, predict, group."""

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
    """Select images: which to label first, which to look at, which to throw away.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: a ``.csv`` file for their names, which must not exist yet; a contact sheet (``.html``) goes beside it.
        by: ``typical``, ``coverage``, ``k-means++``, ``outliers``, ``duplicates`` or ``uncertain`` (`cacr list ways`).
        number: images to select; by default 100, and all copies.
        threshold: correlation of pixels from which on two images are copies.
        seed: of what is drawn.
        page: write the contact sheet too.
        settings: ``images``, ``labels``, ``features``, ``cache``, ``part``, ``data_root``, ``download``,
            ``max_unreadable``, ``reader`` and ``reader_components``, as for :func:`search`.

    Returns:
        The images, and which of them were selected.
    """
    targets = _new_list(out, page)
    WAYS[by]  # an unknown name is told before anything is encoded
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
    """Guess the labels of images from the few that have one, or from the names of classes alone.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: a ``.csv`` file for the guesses, which must not exist yet; the least certain come first.
        labels: a ``.csv`` file with the columns ``path`` and ``label``; left out: the data's own labels.
        classes: names of classes with commas between them, for an encoder with a text side: no labels are needed.
        prompts: the sentences around them: ``plain``, ``imagenet``, or a file.
        by: ``auto``, ``knn-1``, ``knn-5``, ``knn-20`` or ``linear``.
        all: guess for labelled images too, to find wrong labels.
        seed: of the folds and of the linear classifier.
        settings: as for :func:`select`.

    Returns:
        The images, and the guesses.
    """
    (target,) = _new_list(out, page=False)
    if classes is not None:
        names = class_list(classes)
        if labels is not None or all or by != "auto":
            raise UserError("classes guesses by words alone: leave labels, by and all out")
        read_prompts(prompts)  # what is wrong with them is told before anything is encoded
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
    """Divide images into groups of similar ones.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: a ``.csv`` file for the groups, which must not exist yet; a gallery is written beside it (``.html``).
        number: groups, or ``auto``.
        seed: of the first centres.
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
    """A list to write, and the page beside it; refused where they exist, before anything is computed."""
    target = Path(out)
    require_new_file(target, (".csv",))
    beside = [target.with_suffix(".html")] if page else []
    for each in beside:
        require_new_file(each, (".html",))
    return [target, *beside]


def _collect(run: AnyPath, data: AnyPath, settings: Mapping[str, Any], *, words: bool = False) -> Collection:
    """Images with their features and labels; settings are those of opening and those of encoding.

    With ``words`` an encoder without a text side is refused before anything is encoded.
    """
    encoding = ("features", "cache", "reader", "reader_components", "max_unreadable")
    opened = open_images(
        run, str(data), **{name: value for name, value in settings.items() if name not in encoding}
    )
    if words:
        opened.encoder.text  # noqa: B018  (who knows no words says so)
    with bar("encoding") as progress:
        return opened.collect(
            progress=progress, **{name: settings[name] for name in encoding if name in settings}
        )
