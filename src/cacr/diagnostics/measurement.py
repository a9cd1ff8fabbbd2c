"""One measurement: all metrics of embeddings and features, and how they are computed."""

from typing import Any

from torch import Tensor

from cacr.diagnostics import evidence, measures
from cacr.diagnostics.captions import measure_captions
from cacr.diagnostics.embedding import PIXELS, Embedded, ViewFeatures
from cacr.diagnostics.evidence import measure_features
from cacr.diagnostics.measures import measure_embeddings, online_knn


def measure(seen: Embedded, pixels: ViewFeatures | None, *, t_pos: float, t_neg: float) -> dict[str, float]:
    """All metrics by name; those of pixels have the prefix ``pixels_``.

    Args:
        seen: embeddings and features of the model.
        pixels: pixels of the same images, if they are measured too.
        t_pos: t+ of the training.
        t_neg: t- of the training.
    """
    figures = measure_embeddings(seen.z, t_pos=t_pos, t_neg=t_neg) | _of_features(seen.features, seen.labels)
    if seen.texts is not None:
        figures |= measure_captions(seen.z[0], seen.texts)
    if pixels is not None:
        of_pixels = _of_features(pixels, seen.labels)
        figures |= {f"pixels_{name}": value for name, value in of_pixels.items()}
    return figures


def _of_features(features: ViewFeatures, labels: Tensor | None) -> dict[str, float]:
    figures = measure_features(*features)
    return figures if labels is None else figures | {"knn": online_knn(features.centre, labels)}


def how_measured(*, t_pos: float, t_neg: float) -> dict[str, Any]:
    """The choices behind the metrics, for ``how.json``; ``t_pos`` and ``t_neg`` are those of the training."""
    return {
        "entropies": {"minibatch": measures.MINIBATCH, "t_pos": measures.T_POS, "t_neg": measures.T_NEG},
        "reversed_forces": {"t_pos": t_pos, "t_neg": t_neg},
        "knn": measures.KNN,
        "features": {
            "images": f"at most {evidence.MOST}",
            "reader": f"{evidence.READER}, {evidence.COMPONENTS} components, fitted on the centre views",
            "neighbours": evidence.NEIGHBOURS,
            "clusters": evidence.CLUSTERS,
            "halvings": evidence.HALVINGS,
            "pixels": PIXELS,
        },
    }
