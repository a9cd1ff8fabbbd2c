"""Presets: named sets of augmentations."""

from dataclasses import dataclass, fields, replace
from itertools import cycle, islice
from typing import Any, Self

from cacr.errors import SettingsError
from cacr.normalisation import CIFAR10, CIFAR100, IMAGENET, MNIST, STL10, Statistics
from cacr.registry import Registry, nearest
from cacr.views.augmentation import Augmentation
from cacr.views.options import parse


@dataclass(frozen=True)
class Preset:
    """The views of an image, by name.

    Attributes:
        name: Name on the command line.
        summary: One line for listings.
        views: Augmentations of the views, repeated in turn for more views.
        mean: Mean per channel, subtracted from values in [0, 1].
        std: Standard deviation per channel, divided by.
        local: For multi-crop: augmentation of all further views, instead of repeating ``views``.
        default_views: Default number of views.
    """

    name: str
    summary: str
    views: tuple[Augmentation, ...]
    mean: Statistics
    std: Statistics
    local: Augmentation | None = None
    default_views: int = 2

    def __post_init__(self) -> None:
        if min(self.std) <= 0:
            raise SettingsError([f"std is {','.join(map(str, self.std))}; all three must be more than 0"])
        # listings use the first line of the docstring
        object.__setattr__(self, "__doc__", self.summary)

    @property
    def size(self) -> int:
        """Side of the (global) views, in pixels."""
        return self.views[0].size

    @property
    def upright(self) -> bool:
        """Whether images are assumed to have an upward direction."""
        return self.views[0].upright

    def for_views(self, count: int, weak: int = 0) -> tuple[Augmentation, ...]:
        """The augmentation of each of ``count`` views; the last ``weak`` ones do not change colours."""
        if self.local is None:
            made = tuple(islice(cycle(self.views), count))
            return made[: count - weak] + tuple(_weak(view) for view in made[count - weak :])
        return (self.views + (self.local,) * (count - len(self.views)))[:count]

    def global_views(self, count: int) -> int:
        """How many of ``count`` views are not local crops: the first ones."""
        return count if self.local is None else min(count, len(self.views))

    def resized(self, size: int) -> Self:
        """The same views with a side of ``size`` pixels; local views, blur and evaluation size are scaled too."""
        ratio = size / self.size
        local = None if self.local is None else _resized(self.local, max(1, round(self.local.size * ratio)))
        return replace(self, views=tuple(_resized(view, size) for view in self.views), local=local)

    def with_options(self, **options: Any) -> Self:
        """The preset with some settings replaced, given as values or as text of the command line.

        Names are those of `Augmentation` (with the prefix ``local_`` for the local views of a multi-crop preset), and
        ``upright``, ``mean`` and ``std``, which hold for all views.

        Raises:
            SettingsError: Lists all unknown names and wrong values.
        """
        known = option_names(local=self.local is not None)
        problems, values = [], {}
        for name, value in options.items():
            if name not in known:
                problems.append(f"preset {self.name} has no setting {name!r}; {nearest(name, sorted(known))}")
                continue
            try:
                values[name] = parse(name.removeprefix("local_"), value)
            except ValueError as error:
                problems.append(f"{name}: {error}")
        turned = not values.get("upright", self.upright)
        problems += [
            f"{name} has no effect with upright=false, where all orientations are equally likely: leave it out"
            for name in ("flip", "local_flip")
            if turned and name in values
        ]
        if problems:
            raise SettingsError(problems)
        for_views = {name: value for name, value in values.items() if name in _OF_A_VIEW}
        for_local = {n.removeprefix("local_"): v for n, v in values.items() if n.startswith("local_")}
        for_local |= {name: value for name, value in values.items() if name in _OF_THE_IMAGES & _OF_A_VIEW}
        return replace(
            self,
            views=tuple(replace(view, **for_views) for view in self.views),
            local=None if self.local is None else replace(self.local, **for_local),
            mean=values.get("mean", self.mean),
            std=values.get("std", self.std),
        )


_OF_A_VIEW = frozenset(field.name for field in fields(Augmentation))
_OF_THE_IMAGES = frozenset({"upright", "mean", "std"})


def option_names(*, local: bool) -> frozenset[str]:
    """Names that `Preset.with_options` accepts; with ``local``, those of a multi-crop preset."""
    of_local = {f"local_{name}" for name in _OF_A_VIEW - _OF_THE_IMAGES} if local else set()
    return _OF_A_VIEW | _OF_THE_IMAGES | of_local


def _weak(view: Augmentation) -> Augmentation:
    """Only the crop and the flip."""
    return replace(view, jitter=0.0, grey=0.0, blur=0.0, solarise=0.0)


def _resized(view: Augmentation, size: int) -> Augmentation:
    kernel = view.blur_kernel
    if view.blur > 0:
        kernel = max(3, 2 * round((kernel * size / view.size - 1) / 2) + 1)
    resize = None if view.scale is not None else shorter_side(size)
    return replace(view, size=size, resize=resize, blur_kernel=kernel)


def shorter_side(size: int) -> int:
    """Shorter side of an image before the centre crop: 32 for 32, 70 for 64, 256 for 224."""
    if size <= 32:
        return size
    return round(size * (70 / 64 if size <= 64 else 256 / 224))


def probe_train(size: int, mean: Statistics, std: Statistics) -> Preset:
    """Views to train a classifier on frozen features: crop and flip, no colour changes."""
    scale = (0.2, 1.0) if size <= 32 else (0.08, 1.0)
    view = Augmentation(size, scale=scale)
    summary = "training a probe: random resized crop and flip, no colour changes"
    return Preset("probe-train", summary, (view,), mean, std, default_views=1)


def probe_test(size: int, mean: Statistics, std: Statistics) -> Preset:
    """The evaluation view: resize the shorter side, crop the centre."""
    view = Augmentation.centre(size, shorter_side(size))
    return Preset("probe-test", "evaluation: resize and centre crop", (view,), mean, std, default_views=1)


PRESETS: Registry[Preset] = Registry("preset")


def _add(preset: Preset) -> None:
    PRESETS.register(preset.name)(preset)


def preset_for(image_size: int) -> str:
    """Name of the preset for photos whose shorter side has ``image_size`` pixels."""
    if image_size <= 48:
        return "cifar"
    return "stl" if image_size <= 128 else "moco-v2"


_SMALL_COLOURS: dict[str, float] = {
    "jitter": 1.0,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.4,
    "hue": 0.4,
    "grey": 0.2,
}
_MOCO_V2_COLOURS = _SMALL_COLOURS | {"jitter": 0.8, "hue": 0.1, "blur": 0.5}
_BYOL_COLOURS = _MOCO_V2_COLOURS | {"saturation": 0.2}
_SWAV_COLOURS = _MOCO_V2_COLOURS | {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}


def _photo(size: int, scale: tuple[float, float], colours: dict[str, float], **more: Any) -> Augmentation:
    return Augmentation(size, scale=scale, **{**colours, **more})


_CIFAR = _photo(32, (0.2, 1.0), _SMALL_COLOURS)
_BYOL = (
    _photo(224, (0.08, 1.0), _BYOL_COLOURS, blur=1.0),
    _photo(224, (0.08, 1.0), _BYOL_COLOURS, blur=0.1, solarise=0.2),
)

_add(Preset("cifar", "32 px, CIFAR-10 statistics: strong jitter always, no blur", (_CIFAR,), *CIFAR10))
_add(Preset("cifar100", "32 px, CIFAR-100 statistics: as cifar", (_CIFAR,), *CIFAR100))
_add(
    Preset(
        "stl",
        "64 px, STL-10 statistics: as cifar, with smaller crops",
        (_photo(64, (0.08, 1.0), _SMALL_COLOURS),),
        *STL10,
    )
)
_add(
    Preset(
        "hcl",
        "32 px, CIFAR-10 statistics: the views of the hard-negatives code, with blur",
        (_photo(32, (0.08, 1.0), _MOCO_V2_COLOURS, blur_kernel=3),),
        *CIFAR10,
    )
)
_add(
    Preset(
        "moco-v2",
        "224 px, ImageNet statistics: MoCo v2",
        (_photo(224, (0.2, 1.0), _MOCO_V2_COLOURS),),
        *IMAGENET,
    )
)
_add(Preset("byol", "224 px, ImageNet statistics: the asymmetric pair of BYOL and MoCo v3", _BYOL, *IMAGENET))
_add(
    Preset(
        "multicrop-swav",
        "two views of 224 px and six of 96 px: SwAV",
        (_photo(224, (0.14, 1.0), _SWAV_COLOURS),) * 2,
        *IMAGENET,
        local=_photo(96, (0.05, 0.14), _SWAV_COLOURS),
        default_views=8,
    )
)
_add(
    Preset(
        "multicrop-cacr",
        "the byol pair and eight views of 96 px",
        _BYOL,
        *IMAGENET,
        local=_photo(96, (0.05, 0.4), _BYOL_COLOURS, interpolation="bicubic"),
        default_views=10,
    )
)
_add(
    Preset(
        "clip",
        "224 px, ImageNet statistics: large crops, no flips and no colour changes, so that captions stay true",
        (Augmentation(224, scale=(0.5, 1.0), flip=0.0),),
        *IMAGENET,
        default_views=1,
    )
)
_add(
    Preset(
        "digits",
        "32 px, MNIST statistics: crops that keep most of a digit, brightness and contrast, no flips, no colours",
        (Augmentation(32, scale=(0.4, 1.0), flip=0.0, jitter=0.8, brightness=0.4, contrast=0.4),),
        *MNIST,
    )
)
_add(probe_train(32, *CIFAR10))
_add(probe_test(32, *CIFAR10))
