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

DataArgument = Annotated[str, typer.Argument(help="A folder of images, or a name; see `cacr list`.")]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(
        parser=path, help="Features of the data (`cacr embed RUN DATA --out F.npz`): nothing is encoded."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of what is drawn.")]
PageOption = Annotated[
    bool, typer.Option("--page/--no-page", help="Write a page of pictures beside the list.")
]


def select(
    run: EncoderArgument,
    data: DataArgument,
    out: Annotated[Path, typer.Option(parser=path, help="List to write: .csv; its contact sheet is .html.")],
    by: Annotated[
        str,
        typer.Option(
            help="typical, coverage, k-means++, uncertain, outliers or duplicates; see `cacr list ways`."
        ),
    ] = "typical",
    number: Annotated[
        int | None, typer.Option(min=1, help="Images to select (default: 100; duplicates: all).")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=-1, max=1, help="Correlation of pixels from which on images are duplicates (default: 0.98)."
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
    """Select images: which to label first, which to look at, which to throw away.

    cacr select runs/photos photos/ --number 100 --out label-these.csv

    cacr select runs/photos photos/ --by duplicates --out copies.csv

    cacr pretrain photos/ --images except:copies.csv --out runs/photos2
    """
    from cacr.curation import select as choose

    check_part(part)
    if threshold is not None and by != "duplicates":
        raise UserError(f"--threshold is of --by duplicates, and changes nothing with --by {by}")
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
    show(f"{len(selection.chosen):,} of {len(found):,} images selected by {selection.by}: {out}")
    if page:
        show(f"contact sheet: {out.with_suffix('.html')}")
    _tell(found, data)
    same = _same_images(data_root=data_root, download=download, part=part, images=images, features=features)
    if not len(selection.chosen):
        show("what next? There is nothing to do: no image was selected.")
    elif by in ("duplicates", "outliers"):
        look = "" if by == "duplicates" else "Look at them first. "
        words = "cacr", "pretrain", data, "--images", f"except:{out}", "--out", "runs/without"
        where = _same_images(data_root=data_root, download=download)
        show(f"what next? {look}Train without them: {shell_words(*words, *where)}")
    else:
        show(f"what next? {_after_selecting(run, data, out, labels, same)}")


def _after_selecting(run: Path, data: str, out: Path, labels: Path | None, same: tuple[object, ...]) -> str:
    """What to do with images that are worth a label."""
    guess = shell_words(
        "cacr", "predict", run, data, "--labels", labels or out, *same, "--out", out.with_name("guesses.csv")
    )
    kept = f", and add its rows to {labels}" if labels else ""
    return f"Fill in the column 'label' of {out}{kept}. Then guess the labels of all others: {guess}"


def _same_images(**options: object) -> tuple[object, ...]:
    """The options by which a further command sees the same images; those that were not given are left out."""
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
    out: Annotated[Path, typer.Option(parser=path, help="Guesses to write, the least certain first: .csv.")],
    labels: LabelsOption = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help='Names of classes, such as cat,dog,"something else": no labels; needs a text side.'
        ),
    ] = None,
    prompts: Annotated[
        str, typer.Option(help="Sentences around --classes: plain, imagenet, or a .txt or .json file.")
    ] = "plain",
    by: Annotated[
        str, typer.Option(help="auto (the best by cross-validation), knn-1, knn-5, knn-20 or linear.")
    ] = "auto",
    everything: Annotated[
        bool, typer.Option("--all", help="Guess for labelled images too, to find wrong labels.")
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
    """Guess the labels of all images from the few that have one, or from words, with a confidence for each.

    cacr predict runs/photos photos/ --labels labels.csv --out guesses.csv

    cacr predict runs/clip photos/ --classes cat,dog,"something else" --out guesses.csv
    """
    from cacr.curation import predict as guess

    check_part(part)
    if prompts != "plain" and classes is None:
        raise UserError("--prompts are the sentences around --classes: give both, or neither")
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
            f"{guesses.by}: {100 * guesses.judged.accuracy:.1f} ± {100 * guesses.judged.spread:.1f} % right on labels "
            f"that it did not learn from ({known:,} labels of {len(guesses.class_names)} classes, cross-validated)"
        )
    if guesses.others:
        show("not chosen: " + ", ".join(f"{n} {100 * j.accuracy:.1f} %" for n, j in guesses.others.items()))
    sure = int((guesses.confidence[:, 0] >= 0.9).sum())
    show(f"{len(guesses.images):,} guesses, {sure:,} of them with a confidence of 0.9 or more: {out}")
    _tell(found, data)
    same = _same_images(data_root=data_root, download=download, part=part, images=images, features=features)
    if classes is not None:
        again = shell_words(
            "cacr", "predict", run, data, "--labels", out, *same, "--out", out.with_name("better.csv")
        )
        show(
            "note: no label has checked these confidences. what next? Correct some of the guesses, remove the other "
            f"rows, and let a classifier learn from them: {again}"
        )
        return
    more = shell_words(
        *("cacr", "select", run, data, "--by", "uncertain"),
        *(("--labels", labels) if labels else ()),
        *same,
        *("--out", out.with_name("label-next.csv")),
    )
    show(
        f"what next? The first guesses are the least certain: correct them. Or select what to label next: {more}"
    )


def group(
    run: EncoderArgument,
    data: DataArgument,
    out: Annotated[Path, typer.Option(parser=path, help="Groups to write: .csv; their gallery is .html.")],
    number: Annotated[
        str, typer.Option(metavar="N", help="Number of groups; auto: where they are most clearly apart.")
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
    """Divide images into groups of similar ones, named by their labels where there are some.

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
            "note: the groups are hardly apart (below 0.1): they divide what is one cloud; look at the gallery"
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
    """What was left out, and how images and labels were read."""
    if found.unreadable:
        show(left_out(found.unreadable, data))
    for note in (*found.reused, *found.notes):
        show(f"note: {note}")
