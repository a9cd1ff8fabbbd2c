"""One file for each protocol, with its settings; they register themselves when they are imported here."""

from cacr.evaluation.protocols import (  # noqa: F401
    captions,
    cluster,
    detection,
    fewshot,
    fewshot_finetune,
    finetune,
    knn,
    linear,
    linear_hcl,
    linear_moco,
    linear_mocov3,
    linear_paper,
    retrieval,
    segmentation,
    transfer,
    transfer_finetune,
    zeroshot,
)
