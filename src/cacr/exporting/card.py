"""The model card: what an encoder is, how it was trained, and how it was evaluated."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cacr
from cacr.config import PretrainSettings
from cacr.encoders import Encoder, EncoderInfo, Reader
from cacr.errors import UserError
from cacr.evaluation import Result
from cacr.files import printable
from cacr.runs.budget import budget_of
from cacr.runs.result import shown_notes

_LIBRARIES = {"hub": "timm", "torch": "pytorch"}  # the others are named like the format
_ABOUT_MACHINES = ("data_root", "download", "accelerator", "devices", "nodes", "workers")


def model_card(
    encoder: Encoder,
    results: Sequence[Result],
    settings: PretrainSettings | None,
    *,
    title: str,
    to: str,
    code: str,
    reader: str | None = None,
) -> str:
    """The card as Markdown, with the header for model hubs.

    Paths are shortened to names, because cards are published.

    Args:
        encoder: The encoder.
        results: Its results.
        settings: Settings of its training; None if they are not known.
        title: Name of the model.
        to: Format of the file.
        code: Python code that loads it.
        reader: File name of its reader; None if it has none.
    """
    info = encoder.info
    parameters = sum(parameter.numel() for parameter in encoder.backbone.parameters())
    parts = [
        "---\n"
        "license: other\n"
        "license_name: not-chosen-yet  # choose one before you publish\n"
        f"library_name: {_LIBRARIES.get(to, to)}\n"
        "tags: [image-feature-extraction, self-supervised, contrastive, cacr]\n"
        "---",
        f"# {_plain(title)}",
        f"An image encoder: `{info.encoder}`{_width(info)}, {parameters / 1e6:.2f} M parameters, "
        f"{info.feature_dim} features per image. {_written(info)}",
        f"## Loading it\n```python\n{code}\n```",
        f"It takes images prepared like this:\n```python\n{preparation(info)}\n```",
        *_comparing(encoder.reader, reader),
        f"## Training\n{_training(info, settings)}",
        f"## Evaluation\n{_evaluation(results)}",
        "## Limits\n"
        "The features depend on the images above and on their views: the encoder was trained to ignore what the views "
        "change (see the preset), and it has never seen what the images do not show. It has not been examined for "
        "bias towards groups of people. The numbers above say nothing about other data.",
        f"## Licence\n{_licence(info, settings)}",
    ]
    return "\n\n".join(parts) + "\n"


def preparation(info: EncoderInfo) -> str:
    """The encoder's preprocessing as torchvision code."""
    mean, std = (tuple(values) for values in (info.mean, info.std))
    return (
        "from torchvision import transforms\n\n"
        "prepare = transforms.Compose([\n"
        f"    transforms.Resize({_resizing(info)}),  # the shorter side of a PIL image\n"
        f"    transforms.CenterCrop({info.image_size}),\n"
        "    transforms.ToTensor(),\n"
        f"    transforms.Normalize({mean}, {std}),\n"
        "])"
    )


def _resizing(info: EncoderInfo) -> str:
    size = str(info.resize or info.image_size)
    if info.interpolation == "bilinear":
        return size
    return f"{size}, transforms.InterpolationMode.{info.interpolation.upper()}"


def comparison(reader: Reader, name: str) -> str:
    """Python code that compares features with a reader in a file, using only NumPy."""
    centred = 'features - reader["mean"]'
    read = centred if reader.map is None else f'({centred}) @ reader["map"]'
    return (
        "import numpy as np\n"
        "from safetensors.numpy import load_file\n\n"
        f"reader = load_file({json.dumps(name)})\n"
        "# features: (n, d), a NumPy array\n"
        f"read = {read}\n"
        "read = read / np.linalg.norm(read, axis=1, keepdims=True)\n"
        "cosines = read @ read.T"
    )


def _comparing(reader: Reader | None, name: str | None) -> list[str]:
    """The section on comparing features; empty without a reader."""
    if reader is None or name is None:
        return []
    return [
        "## Comparing images\n"
        "For search, nearest neighbours and clusters, features are prepared by a reader: it centres them and, if it "
        f"has a map, scales their principal directions. The reader is in {_plain(name)}: {_plain(reader.kind)}, fitted "
        f"on {reader.images:,} training images without labels. Classifiers use the features without the reader.\n"
        f"```python\n{comparison(reader, name)}\n```"
    ]


def _written(info: EncoderInfo) -> str:
    if not info.training:
        return f"It was written by cacr {cacr.__version__}, which did not train it."
    return f"It was trained without labels by cacr {cacr.__version__}."


def _licence(info: EncoderInfo, settings: PretrainSettings | None) -> str:
    """The training data and initial weights, each with a field for its licence."""
    data = info.training.get("data")
    made_of = {"training images": Path(data).name if isinstance(data, str) else "not known"}
    if settings is not None and settings.init is not None:
        made_of["initial weights"] = Path(settings.init).name
    table = _table(("", "", "licence"), ((what, name, "to be filled in") for what, name in made_of.items()))
    return (
        "The weights belong to the person who trained them; cacr claims no rights. Choose a licence that the terms of "
        f"the following sources allow; cacr does not know these terms.\n\n{table}"
    )


def _width(info: EncoderInfo) -> str:
    return "" if info.width == 1 else f" of width {info.width:g}"


def _training(info: EncoderInfo, settings: PretrainSettings | None) -> str:
    if not info.training:
        return "Nothing is known about its training."
    facts = {**info.training, "preset": info.preset}
    if passes := _passes(info, settings):  # if max_steps ends a run, its epochs are only the plan
        facts.pop("epochs", None)
        facts["passes over the images"] = passes
    text = _table(("", ""), ((name.replace("_", " "), _value(value)) for name, value in facts.items()))
    if facts.get("finished") is False:
        text += "\n\nThe run was not finished when this file was written."
    if settings is not None:
        others = {
            name: value
            for name, value in settings.model_dump(mode="json").items()
            if name not in facts
            and name not in _ABOUT_MACHINES
            and not name.startswith(("log_", "checkpoint_"))
        }
        for name in ("data", "init"):
            if others.get(name) is not None:
                others[name] = Path(others[name]).name
        text += "\n\nAll other settings: " + ", ".join(f"{n} = {_value(v)}" for n, v in others.items()) + "."
    return text


def _passes(info: EncoderInfo, settings: PretrainSettings | None) -> str:
    """The number of passes over the images; empty if it is not known."""
    if settings is None:
        return ""
    try:
        budget = budget_of(info.training, settings.accumulate, Path("encoder.json"))
    except UserError:
        return ""
    return f"{budget.views_seen / (budget.images * budget.views):,.4g}"


def _evaluation(results: Sequence[Result]) -> str:
    if not results:
        return "Not evaluated."
    rows = (
        (
            result.protocol,
            "this encoder" if result.subject == "encoder" else result.subject,
            "all" if result.labels_per_class is None else f"{result.labels_per_class} per class",
            measure,
            text,
            _without_path(result.split, result),
            _value(result.settings),
        )
        for result in results
        for measure, text in result.measures.items()
    )
    table = _table(("protocol", "what", "labels", "metric", "score", "tested on", "settings"), rows)
    notes = dict.fromkeys(_without_path(note, r) for r in results for note in shown_notes([r]))
    return "\n".join([table, *(f"\n{_plain(note)}." for note in notes)])


def _without_path(text: str, result: Result) -> str:
    for data in (result.data, result.test_data):
        text = text.replace(data, Path(data).name)
    return text


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_value(item)}" for name, item in value.items()) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(text: str) -> str:
    """Text without Markdown syntax, also for tables."""
    escaped = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    for sign in "\\|`*_[]":
        escaped = escaped.replace(sign, "\\" + sign)
    return escaped
