"""Table A12: zero-shot accuracy on ImageNet-1K after training on images with captions (CC3M), ResNet-50.

Claim: CACR between images and captions is above CLIP.
Protocol: 32 epochs, then CLIP's 80 sentences around every class name. The paper trained CLIP again (19.2) and also
quotes the published number (19.8).
"""

from cacr.ledger.item import Claim, Column, Item, Row, add

CLIP, CACR = "CLIP", "CACR"
PUBLISHED = "CLIP, as published"
TEXT = {"text_width": 32, "text_layers": 1, "text_context": 16}

add(
    Item(
        "tableA12",
        "zero-shot accuracy on ImageNet-1K after CC3M, ResNet-50",
        (
            Row(CLIP, {"method": "clip", **TEXT}, "cc3m-clip-rn50"),
            Row(CACR, {"method": "cacr_text", **TEXT}, "cc3m-cacr-rn50"),
            Row(PUBLISHED),
        ),
        (
            Column(
                "zero-shot",
                "cc3m",
                {},
                {"data": "imagenet", "protocol": ["zeroshot"], "prompts": "imagenet"},
                references=("untrained",),
                whole_start=True,
                smoke={"data": "digits", "protocol": ["zeroshot"]},
                smoke_data="digit-captions",
            ),
        ),
        claims=(
            Claim.above(
                "CACR knows more images by the names of their classes than CLIP.",
                (CACR, "zero-shot"),
                (CLIP, "zero-shot"),
            ),
        ),
        paper={PUBLISHED: (19.8,), CLIP: (19.2,), CACR: (22.7,)},
        needs="3.3 million images with captions in DATA_ROOT/cc3m (docs/how-to/captions.md), ImageNet-1K's validation "
        "images; 8 GPUs of 32 GB, a day per cell",
        no_mini="thousands of captions are too few for any zero-shot accuracy on ImageNet; docs/results.md has the "
        "comparison on 1,600 photos with five captions each (benchmarks/captions.py)",
    )
)
