"""What the diagnostics see of held-out images: which views, by which features."""

from pathlib import Path

import pytest
import torch
from rich.console import Console

from cacr.data import Source, open_source
from cacr.diagnostics.embedding import Embedded, HeldOutImages, ViewFeatures, measured_views
from cacr.diagnostics.observer import RunObserver
from cacr.encoders import load_encoder
from cacr.features.encode import centre_view, encode
from cacr.randomness import numpy_generator
from cacr.training.building.job import Training
from cacr.training.pretrain import pretrain
from cacr.views import strengthened
from tests.conftest import TINY, save_images

pytestmark = pytest.mark.trains


class _Looks(RunObserver):
    """Keeps what is seen after the last step, twice, and whose images and head they were."""

    kept: "_Looks"
    job: Training
    seen: tuple[Embedded, Embedded]
    of_pixels: ViewFeatures
    held_out: HeldOutImages

    def __init__(self, job: Training, source: Source, console: Console) -> None:
        super().__init__(job, source, console)
        _Looks.kept, self.job, self.held_out = self, job, self._images

    def look(self, step: int, epoch: float, figures: object) -> object:
        self.seen = self._images.embed(), self._images.embed()
        self.of_pixels = self._images.pixels()
        return super().look(step, epoch, figures)


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> tuple[_Looks, Path]:
    """A run of one step on 30 images of 32 pixels, measured on 20 others."""
    folder = tmp_path_factory.mktemp("looked")
    save_images(folder / "data" / "train", 30, size=32)
    save_images(folder / "data" / "test", 20, size=32, seed=1)
    pretrain({"data": str(folder / "data"), **TINY, "max_steps": 1}, folder / "run", observe=_Looks)
    return _Looks.kept, folder


def _order(images: int) -> torch.Tensor:
    """Numbers of the images in the order in which they are measured."""
    return torch.from_numpy(numpy_generator("held out", 0).permutation(images))


def test_neighbouring_images_are_of_all_classes_also_in_a_folder_of_classes(
    classes: Path, tmp_path: Path
) -> None:
    """Entropies are measured in blocks of neighbours, which must be like batches of the training."""
    pretrain({**TINY, "data": str(classes), "held_out": 0, "max_steps": 1}, tmp_path / "run", observe=_Looks)
    labels = _Looks.kept.seen[0].labels
    assert labels is not None
    half = len(labels) // 2
    for part in (labels[:half], labels[half:]):
        assert part.bincount(minlength=2).min() >= 3
    assert _Looks.kept.held_out.count == len(labels)


def test_stronger_views_follow_those_of_training(looked: tuple[_Looks, Path]) -> None:
    looks, _ = looked
    random = measured_views(looks.job.views)
    expected = (
        centre_view(looks.job.method.encoder.info),
        *random,
        strengthened(random[0]),
        strengthened(random[1]),
    )
    assert looks.held_out.views.augmentations == expected
    assert looks.held_out.views.augmentations[looks.held_out.random] == tuple(random)


def test_features_are_those_of_the_encoder_and_embeddings_those_of_the_head(
    looked: tuple[_Looks, Path],
) -> None:
    looks, folder = looked
    z, features = looks.seen[0][:2]
    alone = encode(load_encoder(folder / "run"), open_source(str(folder / "data"), part="test"))
    torch.testing.assert_close(features.centre, alone.values[_order(20)], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        embedded = looks.job.method.head.eval()(features.random.flatten(0, 1)).unflatten(0, (2, 20))
    torch.testing.assert_close(z[:2], embedded, rtol=1e-4, atol=1e-5)
    assert z.shape[:2] == (5, 20) and features.strong.shape == features.random.shape
    assert not torch.isclose(features.strong, features.random).all(-1).any()


def test_the_same_views_are_seen_at_every_measurement(looked: tuple[_Looks, Path]) -> None:
    first, second = looked[0].seen
    assert torch.equal(first.z, second.z)
    for before, after in zip(first.features, second.features, strict=True):
        assert torch.equal(before, after)


def test_pixels_are_the_normalised_images(looked: tuple[_Looks, Path]) -> None:
    looks, folder = looked
    encoder, source = load_encoder(folder / "run"), open_source(str(folder / "data"), part="test")
    images = torch.stack([encoder.preprocess(source.read(number)) for number in _order(20).tolist()])
    torch.testing.assert_close(looks.of_pixels.centre, images.flatten(1), rtol=1e-4, atol=1e-5)
    assert looks.of_pixels.random.shape == looks.of_pixels.strong.shape == (2, 20, 3 * 32 * 32)


def test_views_are_made_in_float32_where_a_run_multiplies_in_bf16(classes: Path, tmp_path: Path) -> None:
    values = {**TINY, "data": str(classes), "precision": "bf16", "blur": 1.0, "max_steps": 1}
    assert pretrain(values, tmp_path / "run", observe=_Looks).status == "finished"
    assert all(view.dtype == torch.float32 for view in next(iter(_Looks.kept.held_out.chunks())))
    assert _Looks.kept.seen[0].z.dtype == torch.float32
