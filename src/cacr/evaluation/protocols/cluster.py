"""Clusters found without labels, compared with the classes."""

import warnings
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch.nn.functional import normalize

from cacr.config import Auto
from cacr.data.prepare import Progress
from cacr.encoders import ReaderKind
from cacr.errors import UserError
from cacr.evaluation.data.task import Task
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.features.reader import components_field, described, reader_field
from cacr.randomness import mixed_seed

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class ClusterSettings(ProtocolSettings):
    """k-means on read features of unit length, compared with the classes."""

    own_measure: ClassVar[bool] = True
    quick: ClassVar[bool] = True

    clusters: Annotated[int, Field(ge=1, le=1_000_000)] | Auto = Field(
        "auto", description="clusters; auto: as many as classes"
    )
    restarts: int = Field(10, ge=1, le=1000, description="starts of k-means; the tightest clusters are kept")
    reader: ReaderKind = reader_field()
    reader_components: int = components_field()


@PROTOCOLS.register("cluster")
def cluster(task: Task, settings: ClusterSettings) -> Score:
    """k-means of the training features; test images in their clusters against classes: NMI, ARI, accuracy."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    reader = task.reader(settings.reader, settings.reader_components)
    train, test = (
        normalize(task.read(part, reader), dim=1).cpu().numpy() for part in (task.train, task.test)
    )
    clusters = task.data.classes if settings.clusters == "auto" else settings.clusters
    if clusters > len(train):
        raise UserError(f"there are {len(train)} training images for {clusters} clusters; give more images")
    model = best_kmeans(train, clusters, settings.restarts, task.seed, task.progress)
    labels = task.test.labels.cpu().numpy()
    found: Integers = model.predict(test).astype(np.int64)
    return Score(
        matched_accuracy(labels, found),
        metric="matched accuracy",
        also={
            "NMI": float(normalized_mutual_info_score(labels, found)),
            "ARI": float(adjusted_rand_score(labels, found)),
        },
        details={
            "clusters": clusters,
            "used": len(np.unique(found)),
            "inertia": float(model.inertia_),
            **described(reader),
        },
    )


def best_kmeans(
    features: Floats, clusters: int, restarts: int, seed: int, progress: Progress | None = None
) -> Any:
    """The k-means with the lowest inertia of some that start from different centres.

    Args:
        features: (n, d), of unit length for clusters by cosine.
        clusters: Number of clusters.
        restarts: Starts.
        seed: Of the starts.
        progress: Called with the number of starts done and in all.

    Returns:
        A fitted ``sklearn.cluster.KMeans``.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    best = None
    for start in range(restarts):
        state = mixed_seed("kmeans", seed, start) % 2**32
        with warnings.catch_warnings():
            # Fewer distinct features than clusters: empty clusters are reported as `used`.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KMeans(clusters, n_init=1, random_state=state).fit(features)
        if best is None or model.inertia_ < best.inertia_:
            best = model
        if progress is not None:
            progress(start + 1, restarts)
    return best


def matched_accuracy(labels: Integers, clusters: Integers) -> float:
    """Share of right images after the best one-to-one matching of clusters with classes.

    max over injective m of (1/n) sum_i [m(cluster_i) = label_i], found by the Hungarian method. The matching
    uses the labels, so a random clustering of a few images scores above chance.

    Args:
        labels: (n,) classes.
        clusters: (n,) clusters.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((clusters.max() + 1, labels.max() + 1), dtype=np.int64)
    np.add.at(counts, (clusters, labels), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / len(labels))
