"""The pipeline as a whole against torchvision's functional operations, step by step."""

import math

import pytest
import torch
import torchvision.transforms.functional as tv
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode

import cacr.views.views as pipeline
from cacr.views import PRESETS, Augmentation, Preset, Views
from cacr.views.draws import BRIGHTNESS, CONTRAST, HUE, SATURATION, Colours, draw_colours, draw_crops
from tests.views.images import photos

STEPS = {
    BRIGHTNESS: tv.adjust_brightness,
    CONTRAST: tv.adjust_contrast,
    SATURATION: tv.adjust_saturation,
    HUE: tv.adjust_hue,
}
MEAN, STD = (0.48, 0.46, 0.41), (0.23, 0.22, 0.24)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def coloured(image: Tensor, colours: Colours, i: int) -> Tensor:
    """Item i's colours, by torchvision; before normalisation."""
    if colours.jittered[i]:
        for step in colours.order[i].tolist():
            image = STEPS[step](image, float(colours.factor[i, step]))
    if colours.grey[i]:
        image = tv.rgb_to_grayscale(image, 3)
    if colours.sigma[i] > 0:
        taps = 2 * int(colours.radius[i]) + 1
        image = tv.gaussian_blur(image, [taps, taps], [float(colours.sigma[i])] * 2)
    return tv.solarize(image, float(colours.threshold[i])) if colours.threshold[i] < math.inf else image


VIEWS = {
    "all alike": [
        Augmentation(24, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.4, grey=0.2)
    ]
    * 3,
    "blur, one without jitter": [
        Augmentation(
            24, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, blur=0.5, blur_kernel=5
        ),
        Augmentation(24, grey=0.5, blur=0.5, blur_kernel=3),
    ],
    "no hue": [Augmentation(24, jitter=1.0, brightness=0.4, contrast=0.4)] * 2,
    "plain": [Augmentation(24)],
    "evaluation": [Augmentation(24, scale=None, resize=28, flip=0.0)],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("items_in_a_chunk", [1, 4, 100])
def test_batch_equals_torchvision(name: str, items_in_a_chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CHUNK_CPU", items_in_a_chunk * 24 * 24 // torch.get_num_threads())
    run, images = VIEWS[name], photos(7, 30, 36)
    (made,) = Views(run, MEAN, STD)(images, generator())
    assert made.shape == (len(run), 7, 3, 24, 24)
    again = generator()
    crops = draw_crops(run, 7, 30, 36, again)
    colours = draw_colours(run, 7, again)
    for view in range(len(run)):
        for image in range(7):
            i = view * 7 + image
            expected = images[image].float() / 255
            if run[view].scale is None:
                expected = tv.center_crop(tv.resize(expected, [28], antialias=True), [24, 24])
            else:
                box = torch.cat([crops.start[i], crops.extent[i]]).int().tolist()
                expected = tv.resized_crop(expected, *box, [24, 24], antialias=True)
            expected = coloured(tv.hflip(expected) if crops.flip[i] else expected, colours, i)
            expected = tv.normalize(expected, MEAN, STD)
            torch.testing.assert_close(made[view, image], expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("name", VIEWS)
def test_views_so_large_that_each_gets_its_own_step_equal_torchvision(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cacr.views.plan._LARGE_CPU", 1)
    test_batch_equals_torchvision(name, 100, monkeypatch)


def test_views_are_ordinary_tensors() -> None:
    """Autograd must be able to keep them, although they are made without it."""
    views = Views([Augmentation(24), Augmentation(96)], MEAN, STD)
    cut = views.crop(tv.to_pil_image(photos(1, 100, 120)[0]), generator())
    made = views(photos(2, 100, 120), generator())
    assert not any(tensor.is_inference() for tensor in [*cut, *made])


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_crop_then_colour_equals_torchvision_on_pil_images(interpolation: str) -> None:
    view = Augmentation(
        40, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, interpolation=interpolation
    )
    views = Views([view] * 4, MEAN, STD)
    image = tv.to_pil_image(photos(1, 70, 90)[0])
    (cut,) = views.crop(image, generator(1))
    assert cut.dtype == torch.uint8 and cut.shape == (4, 3, 40, 40)
    crops = draw_crops([view] * 4, 1, 70, 90, generator(1))
    for i in range(4):
        box = torch.cat([crops.start[i], crops.extent[i]]).int().tolist()
        expected = tv.resized_crop(image, *box, [40, 40], InterpolationMode(interpolation))
        expected = tv.hflip(expected) if crops.flip[i] else expected
        difference = cut[i].int() - tv.pil_to_tensor(expected).int()
        assert difference.abs().max() <= 1

    (made,) = views([cut.unsqueeze(1)], generator(2))
    colours = draw_colours([view] * 4, 1, generator(2))
    for i in range(4):
        expected = tv.normalize(coloured(cut[i].float() / 255, colours, i), MEAN, STD)
        torch.testing.assert_close(made[i, 0], expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("size", [(70, 90), (90, 70), (256, 256)])
def test_evaluation_crop_equals_resize_and_centre_crop_on_pil_images(size: tuple[int, int]) -> None:
    image = tv.to_pil_image(photos(1, *size)[0])
    (cut,) = Views([Augmentation(64, scale=None, resize=70, flip=0.0)], MEAN, STD).crop(image, generator())
    expected = tv.pil_to_tensor(tv.center_crop(tv.resize(image, [70]), [64, 64]))
    assert (cut[0].int() - expected.int()).abs().max() <= 1


def test_views_of_different_sizes_come_in_runs() -> None:
    preset = PRESETS["multicrop-cacr"].resized(56)
    views = Views(preset.for_views(5), preset.mean, preset.std)
    whole = views(photos(3, 64, 80), generator())
    assert [tuple(v.shape) for v in whole] == [(2, 3, 3, 56, 56), (3, 3, 3, 24, 24)]
    cut = [views.crop(tv.to_pil_image(image), generator()) for image in photos(3, 64, 80)]
    stacked = [torch.stack(run, dim=1) for run in zip(*cut, strict=True)]
    assert [v.shape for v in views(stacked, generator())] == [v.shape for v in whole]


def test_local_crops_of_the_size_of_global_ones_are_a_run_of_their_own() -> None:
    preset = PRESETS["multicrop-swav"].resized(32).with_options(local_size=32)
    views = Views(preset.for_views(5), preset.mean, preset.std, global_views=preset.global_views(5))
    assert views.runs == [preset.views, (preset.local,) * 3]
    assert [len(v) for v in views(photos(3, 64, 80), generator())] == [2, 3]
    assert [len(v) for v in views.crop(tv.to_pil_image(photos(1, 64, 80)[0]), generator())] == [2, 3]


@pytest.mark.parametrize(("name", "counts"), [("multicrop-swav", [1, 2, 2]), ("cifar", [1, 2, 8])])
def test_a_preset_counts_its_global_views(name: str, counts: list[int]) -> None:
    assert [PRESETS[name].global_views(count) for count in (1, 2, 8)] == counts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_views_are_channels_last_and_of_the_type_asked_for(dtype: torch.dtype) -> None:
    preset = PRESETS["cifar"]
    images = photos(9, 32, 32)
    (made,) = Views(preset.for_views(2), preset.mean, preset.std, dtype=dtype)(images, generator())
    (exact,) = Views(preset.for_views(2), preset.mean, preset.std)(images, generator())
    assert made.dtype == dtype
    for view in made:
        assert view.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(made.float(), exact, rtol=0, atol=0.02 if dtype == torch.bfloat16 else 0)


@pytest.mark.parametrize("name", ["cifar", "hcl", "byol", "multicrop-cacr", "probe-test"])
def test_a_device_is_never_waited_for(name: str) -> None:
    """On the meta device nothing can be read back and nothing mixes with the CPU, as on a GPU."""
    preset = PRESETS[name].resized(48)
    views = Views(preset.for_views(4), preset.mean, preset.std, dtype=torch.bfloat16, device="meta")
    made = views(photos(5, 48, 60), generator())
    assert all(run.device.type == "meta" and run.dtype == torch.bfloat16 for run in made)
    cut = [views.crop(tv.to_pil_image(image), generator()) for image in photos(5, 48, 60)]
    stacked = [torch.stack(run, dim=1) for run in zip(*cut, strict=True)]
    assert [run.shape for run in views(stacked, generator())] == [run.shape for run in made]


def test_anything_but_bytes_and_levels_is_refused() -> None:
    views = Views([Augmentation(8)], MEAN, STD)
    for images in (torch.zeros(2, 3, 8, 8).double(), torch.zeros(2, 8, 8, 3, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="must be uint8"):
            views(images, generator())


def test_a_seed_gives_the_same_batch() -> None:
    preset = PRESETS["hcl"]
    views, images = Views(preset.for_views(2), preset.mean, preset.std), photos(9, 32, 32)
    first, again, other = (views(images, generator(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.isclose(first, other).all(dim=(2, 3, 4)).any()


def test_an_image_does_not_influence_its_neighbours() -> None:
    preset = PRESETS["hcl"]
    views, images = Views(preset.for_views(2), preset.mean, preset.std), photos(9, 32, 32)
    (before,) = views(images, generator())
    images[4] = 255 - images[4]
    (after,) = views(images, generator())
    changed = (before != after).any(dim=4).any(dim=3).any(dim=2)
    assert changed[:, 4].all()
    changed[:, 4] = False
    assert not changed.any()


def test_scaled_decoding_keeps_a_pixel_for_every_pixel() -> None:
    view = Augmentation(224, scale=(0.2, 1.0))
    side = Views([view], MEAN, STD).at_least
    assert 500 < side < 600
    for height, width in ((side, side), (side, 2 * side), (2 * side, side)):
        crops = draw_crops([view], 3000, height, width, generator())
        assert crops.extent.min() >= 224


def test_scaled_decoding_cannot_be_seen(tmp_path: pytest.TempPathFactory) -> None:
    path = tmp_path / "photo.jpg"
    tv.to_pil_image(photos(1, 900, 1200)[0]).resize((2400, 1800), Image.Resampling.BICUBIC).save(
        path, quality=90
    )
    views = Views([Augmentation(64, scale=(0.2, 1.0))] * 6, MEAN, STD)
    scaled = Image.open(path)
    scaled.draft("RGB", (views.at_least, views.at_least))
    assert scaled.size == (300, 225)
    full = Image.open(path)
    # the same windows, in the pixels of each
    (expected,) = views.crop(full.resize((300, 225), Image.Resampling.BILINEAR), generator())
    (cut,) = views.crop(scaled, generator())
    difference = (cut.float() - expected.float()).abs()
    assert difference.mean() < 3


def presets() -> list[Preset]:
    return [PRESETS[name] for name in PRESETS]


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_every_preset_makes_views(preset: Preset) -> None:
    small = preset.resized(32)
    views = Views(small.for_views(preset.default_views), small.mean, small.std)
    made = views(photos(2, 40, 48), generator())
    assert sum(len(run) for run in made) == preset.default_views
    low = [-mean / std for mean, std in zip(preset.mean, preset.std, strict=True)]
    high = [(1 - mean) / std for mean, std in zip(preset.mean, preset.std, strict=True)]
    for run in made:
        assert torch.isfinite(run).all()
        for channel in range(3):
            assert run[:, :, channel].min() >= low[channel] - 1e-4
            assert run[:, :, channel].max() <= high[channel] + 1e-4
