"""Views per second against torchvision, kornia and lightly, on the same images with the same recipe.

    python benchmarks/views.py --cifar ROOT [--photos FOLDER] [--threads N] [--repeats R]

ROOT holds ``cifar-10-batches-py``; FOLDER holds JPEG files at any depth. Claims, each printed as a ratio:

- `cifar`, 32 px: at least 8x torchvision on PIL images and 3x kornia, on one thread and on all;
- `moco-v2`, 224 px, five views from JPEG files: at least 3.5x one torchvision pipeline per view with Pillow's
  fast blur, each with its own decode.

Peers that are not installed (`pip install cacr[bench]`) are left out.

Contestants take turns, and the ratio is the median over the turns, so that what else the machine does hits
all alike. A turn lasts half a second or more, as training goes on batch after batch. Rates are per second of
processor time on one thread, which other programs disturb less, and per second on the clock on several. With
N threads, what works image by image or file by file runs in N processes that return nothing, and what works
on batches in memory on N threads. From files, every contestant makes batches of eight images' views.
"""

import argparse
import atexit
import importlib.util
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torchvision.transforms as tv
from PIL import Image, ImageFilter
from torch import Tensor
from torchvision.datasets import CIFAR10
from torchvision.transforms import v2

from cacr.decode import read_rgb
from cacr.views import PRESETS, Preset, Views

GOALS = {
    "torchvision on PIL images": 8.0,
    "kornia AugmentationSequential": 3.0,
    "torchvision, MoCo's blur": 3.5,
}
"""How many times as fast as a peer we want to be."""

TURN_SECONDS = 0.5
"""Of each contestant's turn, at least: the first batch after another's turn wakes sleeping threads."""

Contestant = Callable[[], int]  # does its work and returns the number of views made


def rates(contestants: dict[str, Contestant], threads: int, repeats: int) -> dict[str, list[float]]:
    """Views per second of each contestant in each turn, after one turn to warm up."""
    clock = time.process_time if threads == 1 else time.perf_counter
    seen: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, work in contestants.items():
            made, start, begin = 0, clock(), time.perf_counter()
            while made == 0 or time.perf_counter() - begin < TURN_SECONDS:
                made += work()
            if turn:
                seen[name].append(made / (clock() - start))
    return seen


def report(title: str, seen: dict[str, list[float]]) -> None:
    """Medians over the turns; a ratio is that of two contestants in the same turn."""
    print(f"\n{title}")
    for name, values in seen.items():
        line = f"  {name:34s} {statistics.median(values):8,.0f} views/s"
        if name != "cacr":
            ratios = [ours / theirs for ours, theirs in zip(seen["cacr"], values, strict=True)]
            ratio = statistics.median(ratios)
            line += f"   cacr is {ratio:5.2f}x ({min(ratios):.1f} to {max(ratios):.1f})"
            if name in GOALS:
                line += f"   {'met' if ratio >= GOALS[name] else 'MISSED'}: at least {GOALS[name]:g}x"
        print(line)


# --- 32 px: images in memory -------------------------------------------------------------------------------


def torchvision_pil(preset: Preset) -> Callable[[Any], Any]:
    view = preset.views[0]
    return tv.Compose(
        [
            tv.RandomResizedCrop(view.size, scale=view.scale),
            tv.RandomHorizontalFlip(view.flip),
            tv.ColorJitter(view.brightness, view.contrast, view.saturation, view.hue),
            tv.RandomGrayscale(view.grey),
            tv.ToTensor(),
            tv.Normalize(preset.mean, preset.std),
        ]
    )


def torchvision_v2(preset: Preset) -> Callable[[Any], Any]:
    view = preset.views[0]
    return v2.Compose(
        [
            v2.RandomResizedCrop(view.size, scale=view.scale, antialias=True),
            v2.RandomHorizontalFlip(view.flip),
            v2.ColorJitter(view.brightness, view.contrast, view.saturation, view.hue),
            v2.RandomGrayscale(view.grey),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(preset.mean, preset.std),
        ]
    )


def lightly_simclr(preset: Preset) -> Callable[[Any], Any]:
    from lightly.transforms import SimCLRTransform

    view = preset.views[0]
    assert view.scale is not None
    return SimCLRTransform(
        input_size=view.size,
        cj_prob=view.jitter,
        cj_strength=1.0,
        cj_bright=view.brightness,
        cj_contrast=view.contrast,
        cj_sat=view.saturation,
        cj_hue=view.hue,
        min_scale=view.scale[0],
        random_gray_scale=view.grey,
        gaussian_blur=0.0,
        hf_prob=view.flip,
        normalize={"mean": list(preset.mean), "std": list(preset.std)},
    )


def kornia_batch(preset: Preset, images: Tensor) -> Contestant:
    import kornia.augmentation as kornia

    view = preset.views[0]
    augment = kornia.AugmentationSequential(
        kornia.RandomResizedCrop((view.size, view.size), scale=view.scale),
        kornia.RandomHorizontalFlip(p=view.flip),
        kornia.ColorJitter(view.brightness, view.contrast, view.saturation, view.hue, p=view.jitter),
        kornia.RandomGrayscale(p=view.grey),
        kornia.Normalize(torch.tensor(preset.mean), torch.tensor(preset.std)),
        data_keys=["input"],
    )

    def work() -> int:
        for _ in range(2):
            augment(images.float() / 255)
        return 2 * len(images)

    return work


def spread(work: Callable[[list[Any]], None], things: list[Any], views: int, processes: int) -> Contestant:
    """The work on all things, each with so many views, in this process or in several; nothing is returned."""
    if processes == 1:

        def alone() -> int:
            work(things)
            return views * len(things)

        return alone
    # Workers inherit work and things. Were these sent with every turn, a thread of the pool would copy tensors,
    # and libgomp, seeing more threads of its own than cores, would put every idle one of this process to sleep
    # between any two operations: batches in memory then come at half their speed.
    pool = multiprocessing.get_context("fork").Pool(processes, _inherit, (work, things, processes))
    atexit.register(pool.terminate)

    def together() -> int:
        pool.map(_work_on_share, range(processes), chunksize=1)
        return views * len(things)

    return together


_inherited: tuple[Callable[[list[Any]], None], list[Any], int]


def _inherit(work: Callable[[list[Any]], None], things: list[Any], processes: int) -> None:
    global _inherited
    torch.set_num_threads(1)
    _inherited = work, things, processes


def _work_on_share(number: int) -> None:
    work, things, processes = _inherited
    work(things[number::processes])


def each(transform: Callable[[Any], Any], calls: int, images: list[Any]) -> None:
    for image in images:
        for _ in range(calls):
            transform(image)


def ours_in_memory(preset: Preset, images: Tensor) -> Contestant:
    views = Views(preset.for_views(2), preset.mean, preset.std)
    generator = torch.Generator().manual_seed(0)

    def work() -> int:
        views(images, generator)
        return 2 * len(images)

    return work


def installed(peer: str) -> bool:
    found = importlib.util.find_spec(peer) is not None
    if not found:
        print(f"{peer} is not installed and left out")
    return found


def compare_in_memory(root: Path, count: int, threads: int, repeats: int) -> None:
    preset = PRESETS["cifar"]
    data = CIFAR10(str(root), train=False)
    images = torch.from_numpy(data.data[:count]).permute(0, 3, 1, 2).contiguous()
    pil = [data[i][0] for i in range(count)]
    contestants = {
        "torchvision on PIL images": spread(partial(each, torchvision_pil(preset), 2), pil, 2, threads),
        "torchvision v2 on tensors": spread(
            partial(each, torchvision_v2(preset), 2), list(images), 2, threads
        ),
    }
    if installed("lightly"):
        work = partial(each, lightly_simclr(preset), 1)
        contestants["lightly SimCLRTransform"] = spread(work, pil, 2, threads)
    if installed("kornia"):
        contestants["kornia AugmentationSequential"] = kornia_batch(preset, images)
    contestants["cacr"] = ours_in_memory(preset, images)
    result = rates(contestants, threads, repeats)
    report(f"cifar, 32 px, {count} images in memory, {threads} thread(s)", result)


# --- 224 px: JPEG files ------------------------------------------------------------------------------------


class PillowBlur:
    """Gaussian blur as MoCo's code has it; several times faster than torchvision's own."""

    def __call__(self, image: Image.Image) -> Image.Image:
        """Blur by a random radius."""
        sigma = float(torch.empty(1).uniform_(0.1, 2.0))
        return image.filter(ImageFilter.GaussianBlur(radius=sigma))


def torchvision_moco(preset: Preset, blur: Callable[[Any], Any]) -> Callable[[Any], Any]:
    view = preset.views[0]
    jitter = tv.ColorJitter(view.brightness, view.contrast, view.saturation, view.hue)
    return tv.Compose(
        [
            tv.RandomResizedCrop(view.size, scale=view.scale),
            tv.RandomApply([jitter], p=view.jitter),
            tv.RandomGrayscale(view.grey),
            tv.RandomApply([blur], p=view.blur),
            tv.RandomHorizontalFlip(view.flip),
            tv.ToTensor(),
            tv.Normalize(preset.mean, preset.std),
        ]
    )


def opened(file: Path) -> Image.Image:
    return Image.open(file).convert("RGB")


def decode_for_each_view(transform: Callable[[Any], Any], views: int, files: list[Path]) -> None:
    for batch in batched(files):
        torch.stack([transform(opened(file)) for file in batch for _ in range(views)])


def decode_once(views: Views, files: list[Path]) -> None:
    generator = torch.Generator().manual_seed(0)
    for batch in batched(files):
        # as the loader reads files
        cut = [views.crop(read_rgb(file, str(file), views.at_least), generator) for file in batch]
        views([torch.stack(run, dim=1) for run in zip(*cut, strict=True)], generator)


def batched(files: list[Path], size: int = 8) -> list[list[Path]]:
    return [files[first : first + size] for first in range(0, len(files), size)]


def compare_files(folder: Path, count: int, threads: int, repeats: int) -> None:
    preset, views = PRESETS["moco-v2"], 5
    files = sorted(folder.rglob("*.[jJ][pP]*[gG]"))
    files = files[:: max(1, len(files) // count)][:count]
    published = torchvision_moco(preset, PillowBlur())
    plain = torchvision_moco(preset, tv.GaussianBlur(23, (0.1, 2.0)))
    ours = Views(preset.for_views(views), preset.mean, preset.std)
    works: dict[str, Callable[[list[Any]], None]] = {
        "torchvision, MoCo's blur": partial(decode_for_each_view, published, views),
        "torchvision, its own blur": partial(decode_for_each_view, plain, views),
        "cacr": partial(decode_once, ours),
    }
    contestants = {name: spread(work, files, views, threads) for name, work in works.items()}
    result = rates(contestants, threads, repeats)
    report(f"moco-v2, 224 px, {views} views of {len(files)} JPEG files, {threads} thread(s)", result)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cifar", type=Path, help="folder with cifar-10-batches-py")
    parser.add_argument("--photos", type=Path, help="folder with JPEG files")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for the run with all threads")
    parser.add_argument("--repeats", type=int, default=9, help="turns")
    parser.add_argument("--images", type=int, default=256, help="images in memory")
    parser.add_argument("--files", type=int, default=16, help="JPEG files")
    options = parser.parse_args()
    if options.cifar is None and options.photos is None:
        parser.error("give --cifar, --photos or both")
    for threads in sorted({1, options.threads}):
        torch.set_num_threads(threads)
        if options.cifar is not None:
            compare_in_memory(options.cifar, options.images, threads, options.repeats)
        if options.photos is not None:
            compare_files(options.photos, options.files, threads, options.repeats)


if __name__ == "__main__":
    main()
