"""Commands that sort a collection of images: select, predict, group."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cacr.commands.encoders import EncoderArgument, MaxUnreadable, PartOption, check_part, left_out
from cacr.commands.options import (
    Cache,
    DataRoot,
    Download,
    ImagesOption,
    LabelsOption,
    given,
    path,
    show,
)
from cacr.errors import UserError
from cacr.shell import shell_words

DataArgument = Annotated[
    str, typer.Argument(help="A folder of images, or the name of a data set; see `cacr list sources`.")
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(
        parser=path,
        metavar="PATH",
        help="Stored features of the data (`cacr embed RUN DATA --out F.npz`), instead of encoding images.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random draws.")]
PageOption = Annotated[bool, typer.Option("--page/--no-page", help="Also write an HTML page of the images.")]


def select(
    run: EncoderArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="List to write: .csv; the contact sheet gets the same name with .html.",
        ),
    ],
    by: Annotated[
        str,
        typer.Option(
            help="Selector: typical, coverage, k-means++, uncertain, outliers or duplicates; see `cacr list selectors`."
        ),
    ] = "typical",
    number: Annotated[
        int | None, typer.Option(min=1, help="Number of images to select (default: 100; duplicates: all).")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=-1,
            max=1,
            help="Images are duplicates if their pixels correlate at least this much (default: 0.98).",
        ),
    ] = None,
    labels: LabelsOption = None,
    images: ImagesOption = None,
    features: FeaturesOption = None,
    cache: Cache = True,
    page: PageOption = True,
    seed: Seed = 0,
    part: PartOption = "pretrain",
    data_root: DataRoot = None,
    download: Download = False,
    max_unreadable: MaxUnreadable = 0.1,
) -> None:
    """Select images: which to label first, which to check, which to remove.

    cacr select runs/photos photos/ --number 100 --out label-these.csv

    cacr select runs/photos photos/ --by duplicates --out copies.csv

    cacr pretrain photos/ --images except:copies.csv --out runs/photos2
    """
    from cacr.curation import select as choose

    check_part(part)
    if threshold is not None and by != "duplicates":
        raise UserError(f"--threshold works only with --by duplicates, not with --by {by}")
    values = given(
        None,
        labels=labels,
        images=images,
        features=features,
        data_root=data_root,
        download=download,
        number=number,
        threshold=threshold,
    )
    found, selection = choose(
        run=run,
        data=data,
        out=out,
        by=by,
        page=page,
        seed=seed,
        part=part,
        cache=cache,
        max_unreadable=max_unreadable,
        **values,
    )
    show(f"{len(selection.chosen):,} of {len(found):,} images selected (--by {selection.by}): {out}")
    if page:
        show(f"contact sheet: {out.with_suffix('.html')}")
    _tell(found, data)
    same = _same_images(data_root=data_root, download=download, part=part, images=images, features=features)
    if not len(selection.chosen):
        show("what next? Nothing to do: no image was selected.")
    elif by in ("duplicates", "outliers"):
        look = "" if by == "duplicates" else "Look at them first. "
        words = "cacr", "pretrain", data, "--images", f"except:{out}", "--out", "runs/without"
        where = _same_images(data_root=data_root, download=download)
        show(f"what next? {look}Train without them: {shell_words(*words, *where)}")
    else:
        show(f"what next? {_after_selecting(run, data, out, labels, same)}")


def _after_selecting(run: Path, data: str, out: Path, labels: Path | None, same: tuple[object, ...]) -> str:
    """Suggest what to do with the images to label."""
    guess = shell_words(
        "cacr", "predict", run, data, "--labels", labels or out, *same, "--out", out.with_name("guesses.csv")
    )
    kept = f", and add its rows to {labels}" if labels else ""
    return f"Fill in the column 'label' of {out}{kept}. Then predict the labels of all other images: {guess}"


def _same_images(**options: object) -> tuple[object, ...]:
    """The given options, as words of a command that uses the same images."""
    words: list[object] = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value and (name, value) != ("part", "pretrain"):
            words += [f"--{name.replace('_', '-')}", value]
    return tuple(words)


def predict(
    run: EncoderArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            parser=path, metavar="PATH", help="Predictions to write, the least certain first: .csv."
        ),
    ],
    labels: LabelsOption = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help='Names of classes, such as cat,dog,"something else", instead of labels; needs a text encoder.'
        ),
    ] = None,
    prompts: Annotated[
        str, typer.Option(help="Prompt templates for --classes: plain, imagenet, or a .txt or .json file.")
    ] = "plain",
    by: Annotated[
        str,
        typer.Option(
            help="Classifier: knn-1, knn-5, knn-20, linear, or auto (the best by cross-validation)."
        ),
    ] = "auto",
    everything: Annotated[
        bool, typer.Option("--all", help="Predict labelled images too, to find wrong labels.")
    ] = False,
    images: ImagesOption = None,
    features: FeaturesOption = None,
    cache: Cache = True,
    seed: Seed = 0,
    part: PartOption = "pretrain",
    data_root: DataRoot = None,
    download: Download = False,
    max_unreadable: MaxUnreadable = 0.1,
) -> None:
    """Predict the labels of all images from a few labels, or from class names, with a confidence per image.

    cacr predict runs/photos photos/ --labels labels.csv --out guesses.csv

    cacr predict runs/clip photos/ --classes cat,dog,"something else" --out guesses.csv
    """
    from cacr.curation import predict as guess

    check_part(part)
    if prompts != "plain" and classes is None:
        raise UserError("--prompts needs --classes: give both, or neither")
    values = given(
        None,
        labels=labels,
        classes=classes,
        images=images,
        features=features,
        data_root=data_root,
        download=download,
    )
    found, guesses = guess(
        run=run,
        data=data,
        out=out,
        prompts=prompts,
        by=by,
        all=everything,
        seed=seed,
        part=part,
        cache=cache,
        max_unreadable=max_unreadable,
        **values,
    )
    known = 0 if found.known is None else len(found.known.where)
    if guesses.judged is not None:
        show(
            f"{guesses.by}: {100 * guesses.judged.accuracy:.1f} ± {100 * guesses.judged.spread:.1f} % right by "
            f"cross-validation ({known:,} labels, {len(guesses.class_names)} classes)"
        )
    if guesses.others:
        show("not chosen: " + ", ".join(f"{n} {100 * j.accuracy:.1f} %" for n, j in guesses.others.items()))
    sure = int((guesses.confidence[:, 0] >= 0.9).sum())
    show(f"{len(guesses.images):,} predictions, {sure:,} with a confidence of at least 0.9: {out}")
    _tell(found, data)
    same = _same_images(data_root=data_root, download=download, part=part, images=images, features=features)
    if classes is not None:
        again = shell_words(
            "cacr", "predict", run, data, "--labels", out, *same, "--out", out.with_name("better.csv")
        )
        show(
            "note: these confidences were not checked with labels. what next? Correct some predictions, remove the "
            f"other rows, and train a classifier on them: {again}"
        )
        return
    more = shell_words(
        *("cacr", "select", run, data, "--by", "uncertain"),
        *(("--labels", labels) if labels else ()),
        *same,
        *("--out", out.with_name("label-next.csv")),
    )
    show(
        f"what next? The first predictions are the least certain: correct them. Or select images to label next: {more}"
    )


def group(
    run: EncoderArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="Groups to write: .csv; the gallery gets the same name with .html.",
        ),
    ],
    number: Annotated[
        str, typer.Option(metavar="N", help="Number of groups; auto: the number with the clearest groups.")
    ] = "auto",
    labels: LabelsOption = None,
    images: ImagesOption = None,
    features: FeaturesOption = None,
    cache: Cache = True,
    page: PageOption = True,
    seed: Seed = 0,
    part: PartOption = "pretrain",
    data_root: DataRoot = None,
    download: Download = False,
    max_unreadable: MaxUnreadable = 0.1,
) -> None:
    """Divide images into groups of similar images, named by their labels if there are any.

    cacr group runs/photos photos/ --out groups.csv
    """
    from cacr.curation import group as divide

    check_part(part)
    values = given(
        None, labels=labels, images=images, features=features, data_root=data_root, download=download
    )
    found, groups = divide(
        run=run,
        data=data,
        out=out,
        number=_number(number),
        page=page,
        seed=seed,
        part=part,
        cache=cache,
        max_unreadable=max_unreadable,
        **values,
    )
    for each in groups.groups[:20]:
        agreeing = f" ({each.agreeing:,} of {each.labelled:,} labels)" if each.labelled else ""
        show(f"  {len(each.images):>7,}  {each.name}{agreeing}")
    if len(groups.groups) > 20:
        show(f"  {len(groups.groups) - 20:,} smaller groups")
    show(f"{len(found):,} images in {len(groups.groups)} groups, silhouette {groups.silhouette:.2f}: {out}")
    if groups.silhouette < 0.1:
        show(
            "note: the groups overlap (silhouette below 0.1), so the borders are arbitrary; look at the gallery"
        )
    if page:
        show(f"gallery: {out.with_suffix('.html')}")
    _tell(found, data)


def _number(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isdecimal() or len(text) > 9:
        raise UserError(f"--number takes a number of groups or auto, not {text!r}")
    return int(text)


def _tell(found: Any, data: str) -> None:
    """Print how many images are left out, and notes on images and labels."""
    if found.unreadable:
        show(left_out(found.unreadable, data))
    for note in (*found.reused, *found.notes):
        show(f"note: {note}")
