"""One file per protocol, with its settings; importing this package registers them."""

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
