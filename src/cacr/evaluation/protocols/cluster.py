"""Clusters found without labels, compared with classes."""

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch.nn.functional import normalize

from cacr.config import Auto
from cacr.encoders import ReaderKind
from cacr.errors import UserError
from cacr.evaluation.data.task import Task
from cacr.evaluation.registry import PROTOCOLS, Needs, ProtocolSettings, Score
from cacr.features.clusters import best_kmeans, choose_number, silhouette
from cacr.features.reader import components_field, described, reader_field

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class ClusterSettings(ProtocolSettings):
    """k-means on read features, compared with the classes."""

    own_measure: ClassVar[bool] = True
    needs: ClassVar[Needs] = "images"
    quick: ClassVar[bool] = True

    clusters: Annotated[int, Field(ge=1, le=1_000_000)] | Auto = Field(
        "auto",
        description="number of clusters; auto: the number of classes, or without labels the clearest number",
    )
    restarts: int = Field(10, ge=1, le=1000, description="number of starts of k-means; the best one is used")
    reader: ReaderKind = reader_field()
    reader_components: int = components_field()


@PROTOCOLS.register("cluster")
def cluster(task: Task, settings: ClusterSettings) -> Score:
    """k-means of the training features; clusters of test images compared with classes: NMI, ARI, accuracy.

    Without labels: the silhouette, from -1 to 1, which says how clearly the clusters are separated.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    reader = task.reader(settings.reader, settings.reader_components)
    train, test = (
        normalize(task.read(part, reader), dim=1).cpu().numpy() for part in (task.train, task.test)
    )
    if settings.clusters != "auto":
        clusters = settings.clusters
    else:
        clusters = task.data.classes or choose_number(train, seed=task.seed, progress=task.progress)
    if clusters > len(train):
        raise UserError(f"{len(train)} training images are too few for {clusters} clusters: give more images")
    model = best_kmeans(train, clusters, settings.restarts, task.seed, task.progress)
    found: Integers = model.predict(test).astype(np.int64)
    details = {"clusters": clusters, "used": len(np.unique(found)), "inertia": float(model.inertia_)}
    apart = silhouette(test, found, seed=task.seed)
    if not task.data.classes:
        return Score(apart, metric="silhouette", details=details | described(reader))
    labels = task.test.labels.cpu().numpy()
    return Score(
        matched_accuracy(labels, found),
        metric="matched accuracy",
        also={
            "NMI": float(normalized_mutual_info_score(labels, found)),
            "ARI": float(adjusted_rand_score(labels, found)),
            "silhouette": apart,
        },
        details=details | described(reader),
    )


def matched_accuracy(labels: Integers, clusters: Integers) -> float:
    """Accuracy after the best one-to-one matching of clusters with classes.

    max over injective m of (1/n) sum_i [m(cluster_i) = label_i], found by the Hungarian method. The matching uses the
    labels, so a random clustering of a few images scores above chance.

    Args:
        labels: (n,) classes.
        clusters: (n,) clusters.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((clusters.max() + 1, labels.max() + 1), dtype=np.int64)
    np.add.at(counts, (clusters, labels), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / len(labels))
