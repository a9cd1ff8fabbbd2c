"""The metrics of a run over time, for the charts of the report."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from cacr.runs.reference import parse_reference
from cacr.runs.run import Run
from cacr.training.settings.recipes import RECIPES

MOST_POINTS = 500
"""Largest number of points of a curve; longer curves are thinned evenly, and the last point stays."""


@dataclass(frozen=True)
class Chart:
    """One chart of the page.

    Attributes:
        figure: Its name in ``metrics.jsonl``.
        title: Its title in the report.
        about: One sentence on how to read it.
        zero: Whether the y axis starts at zero.
        spread: The metric that is drawn as a band around this one.
        bound: The metric that is drawn as a dotted line for comparison, such as the largest possible value.
        beside: Text between the value and the bound when both are shown.
    """

    figure: str
    title: str
    about: str = ""
    zero: bool = False
    spread: str | None = None
    bound: str | None = None
    beside: str = " of "


CHARTS = (
    Chart(
        "loss",
        "loss",
        "What is minimised; dotted: its value if all embeddings are equal. Above it, moving them together lowers it.",
        bound="trivial_loss",
        beside="; at one point ",
    ),
    Chart("attraction", "attraction", "The part that pulls positives together."),
    Chart("repulsion", "repulsion", "The part that pushes negatives apart."),
    Chart("t_neg", "t⁻", "How much more near negatives are pushed; shown if it changes.", zero=True),
    Chart(
        "image_to_text",
        "images that find their caption",
        "Recall@1 among the measured captions.",
        zero=True,
    ),
    Chart(
        "text_to_image", "captions that find their image", "Recall@1 among the measured images.", zero=True
    ),
    Chart("caption_distance", "distance of image and caption", "Mean; smaller is closer.", zero=True),
    Chart(
        "text_distance", "distance of two captions", "Mean; near 0: all captions are one point.", zero=True
    ),
    Chart("scale", "scale of the cosines", "CLIP's learned temperature, as 1 / temperature."),
    Chart("knn", "online kNN accuracy", "Nearest neighbours vote on held-out images.", zero=True),
    Chart("probe", "accuracy of a linear classifier", "A new one is trained at each point.", zero=True),
    Chart(
        "entropy",
        "conditional entropy H(X⁻|X)",
        "In nats; dotted: its maximum, if all negatives have equal weights.",
        bound="max_entropy",
    ),
    Chart("mutual_information", "mutual information I(X;X⁻)", "In nats: the maximum minus the entropy."),
    Chart("alignment", "alignment", "Mean squared distance of two views of an image; smaller is closer."),
    Chart("uniformity", "uniformity", "Smaller means more evenly spread over the sphere."),
    Chart("effective_rank", "effective rank", "Number of dimensions that the embeddings use.", zero=True),
    *(
        Chart(
            f"{kind}_distance",
            f"distance of {kind}s",
            "Mean, and one standard deviation as a band.",
            zero=True,
            spread=f"{kind}_distance_std",
        )
        for kind in ("positive", "negative")
    ),
    Chart("positive_entropy", "entropy of π⁺", "In nats: how equal the weights of positives are.", zero=True),
    Chart(
        "reversed_forces",
        "reversed forces",
        "Share of pairs that move in the wrong direction: positives apart, negatives together.",
        zero=True,
    ),
    Chart("view_rank", "finding a view", "Mean reciprocal rank of an image's other random view.", zero=True),
    Chart("strong_rank", "finding an image by a stronger view", "Mean reciprocal rank.", zero=True),
    Chart(
        "neighbour_agreement",
        "neighbours kept in a random view",
        "1: all of them; 0: no more than by chance.",
        zero=True,
    ),
    Chart(
        "strong_agreement",
        "neighbours kept in a stronger view",
        "1: all of them; 0: no more than by chance.",
        zero=True,
    ),
    Chart("half_agreement", "clusters of two halves", "1: the same clusters; 0: by chance.", zero=True),
    Chart("feature_rank", "effective rank of features", "Of the encoder, after centring.", zero=True),
    Chart("feature_spread", "spread of features", "Mean cosine distance of two images.", zero=True),
    Chart("lr", "learning rate", zero=True),
    Chart("images_per_second", "images per second", zero=True),
    Chart("data_wait", "waiting for data", "Share of the time.", zero=True),
)

_PART_OF_OTHERS = {"step", "epoch", *(chart.spread for chart in CHARTS), *(chart.bound for chart in CHARTS)}

_SHOWN_BY_OTHERS = {"view_retrieval", "strong_retrieval", "feature_rank_share"}
"""Left out: the ranks of views show the same more smoothly, and the effective rank in other units."""


def series_of(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, list[float | None]]]:
    """Metric -> its epochs ``x`` and values ``y``; values that are not finite are None."""
    points: dict[str, list[tuple[float, float | None]]] = {}
    for row in rows:
        epoch = _number(row.get("epoch"))
        if epoch is None:
            continue
        for name, value in row.items():
            if (
                name not in ("step", "epoch")
                and isinstance(value, int | float)
                and not isinstance(value, bool)
            ):
                points.setdefault(name, []).append((epoch, _number(value)))
    return {name: _columns(_thinned(found)) for name, found in points.items()}


def charts_for(all_series: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The charts for which some run has values: known metrics first, then all others.

    Metrics of pixels are measured only once, so they have no curves.
    """
    found = dict.fromkeys(name for series in all_series for name in series)
    known = {chart.figure for chart in CHARTS} | _PART_OF_OTHERS | _SHOWN_BY_OTHERS
    others = (Chart(name, name) for name in found if name not in known and not name.startswith("pixels_"))
    return [asdict(chart) for chart in (*CHARTS, *others) if chart.figure in found]


def reference_of(run: Run) -> dict[str, Any] | None:
    """Curves to draw behind those of a run: its ``reference.json``, or those of its recipe; or None.

    Both hold ``{"name": "...", "figures": {"knn": [[epoch, value], ...]}}``.
    """
    found, recipe = run.reference, run.settings.recipe
    if found is None and recipe in RECIPES:
        place = files("cacr.training") / "references" / f"{recipe}.json"
        if place.is_file():
            found = parse_reference(place.read_text(encoding="utf-8"), str(place))
    if found is None:
        return None
    series = {
        figure: _columns([(x, _number(y)) for x, y in points if math.isfinite(x)])
        for figure, points in found.figures.items()
    }
    return {"name": found.name, "series": series}


def _thinned(points: list[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    if len(points) <= MOST_POINTS:
        return points
    last = len(points) - 1
    return [points[round(number * last / (MOST_POINTS - 1))] for number in range(MOST_POINTS)]


def _columns(points: list[tuple[float, float | None]]) -> dict[str, list[float | None]]:
    return {"x": [_short(x) for x, _ in points], "y": [_short(y) for _, y in points]}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
