"""One file for each protocol; they register themselves when they are imported here."""

from cacr.evaluation.protocols import (  # noqa: F401
    cluster,
    elevater,
    elevater_finetune,
    finetune,
    knn,
    linear,
    linear_large,
    linear_paper,
    retrieval,
)
