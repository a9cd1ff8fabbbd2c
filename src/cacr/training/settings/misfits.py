"""Find settings that do not fit the data or each other, before anything is loaded."""

from cacr.config import ResolvedSettings
from cacr.encoders import is_transformer, patch_problem
from cacr.encoders.sizes import takes
from cacr.frameworks import FRAMEWORKS
from cacr.training.settings.described import Described
from cacr.training.settings.rules import COLOUR_STEPS
from cacr.views import PRESETS, Preset


def misfits(settings: ResolvedSettings, data: Described, world_size: int) -> list[str]:
    """List the problems, one sentence each, with a solution."""
    preset = PRESETS[settings.preset]
    return [
        *_batch_problems(data, settings.batch_size, world_size),
        *_caption_problems(settings, data),
        *_encoder_problems(settings, preset, is_transformer(settings.encoder)),
        *_weak_view_problems(settings, preset),
        *_channel_problems(settings, data),
    ]


def _batch_problems(data: Described, batch: int, world_size: int) -> list[str]:
    found = []
    if data.images < 2:
        return [f"{data.name} has {data.images} images to train on: training needs at least two"]
    if batch > data.images:
        found.append(
            f"batch size {batch} exceeds the {data.images} images of {data.name}: "
            f"use --batch-size {data.images} or less"
        )
    if batch < 2 * world_size:
        found.append(
            f"batch size {batch} gives less than two images to each of {world_size} processes: raise --batch-size"
        )
    return found


def _caption_problems(settings: ResolvedSettings, data: Described) -> list[str]:
    """Problems with captions, and with an image encoder that is not trained."""
    if not FRAMEWORKS[settings.framework].reads_captions:
        return []
    found = []
    if not data.captions:
        found.append(f"{data.name} has no captions, but framework {settings.framework} needs them")
    if settings.framework_options.get("image_trained") is False and not settings.init:
        found.append("image_trained=false would keep random weights: give trained weights with --init")
    return found


def _channel_problems(settings: ResolvedSettings, data: Described) -> list[str]:
    """Problems with the channels of the images."""
    channels, options = data.channels, settings.view_options
    found = []
    if settings.channels != channels:
        found.append(f"channels={settings.channels}, but {data.name} has {channels} channels: leave it out")
    found += [
        f"{name} has {len(options[name])} numbers, but {data.name} has {channels} channels: give one number per channel"
        for name in ("mean", "std")
        if name in options and not isinstance(options[name], str) and len(options[name]) != channels
    ]
    if channels != 3:
        found += [
            f"{name} needs RGB images, but {data.name} has {channels} channels: leave it out"
            for name in COLOUR_STEPS
            if float(options.get(name, 0.0)) > 0
        ]
    return found


def _encoder_problems(settings: ResolvedSettings, preset: Preset, transformer: bool) -> list[str]:
    """Problems of the encoder with the sizes of the views, or with settings for transformers."""
    encoder, size = settings.encoder, settings.image_size
    local = preset.resized(size).with_options(**settings.view_options).local
    sizes = {size: "image_size"} if local is None else {local.size: "local_size", size: "image_size"}
    found = _start_problems(settings)
    seen = settings.feature_view
    if seen is not None and not takes(encoder, size, seen.size):
        found.append(f"feature_view: {encoder} for views of {size} px does not take {seen}: leave it out")
    if transformer:
        wrong = {name: patch_problem(encoder, side) for side, name in sizes.items()}
        return found + [f"{name}: {problem}" for name, problem in wrong.items() if problem]
    if local is not None and len(sizes) > 1 and encoder == "small_alexnet":
        found.append(
            f"{encoder} takes images of one size, but preset {preset.name} has views of {size} and {local.size} px: "
            "use another --encoder, such as resnet18"
        )
    for name, default in (("positions", "learned"), ("patches", "trained")):
        if getattr(settings, name) != default:
            found.append(f"{name} is a setting of transformers, and {encoder} is not one: leave it out")
    return found


def _weak_view_problems(settings: ResolvedSettings, preset: Preset) -> list[str]:
    """Problems with the number of weak views."""
    if not settings.weak_views or (preset.local is None and settings.weak_views < settings.views):
        return []
    return [
        f"weak_views={settings.weak_views} of {settings.views} views: at least one view must not be weak, and "
        "presets with local crops cannot have weak views"
    ]


def _start_problems(settings: ResolvedSettings) -> list[str]:
    """Contradictory settings of the initial weights."""
    found = []
    if settings.frozen_stages and not settings.init:
        found.append("frozen_stages would keep random weights: give trained weights with --init")
    if settings.first_layer == "random":
        return found
    if settings.init:
        found.append(
            f"first_layer={settings.first_layer} would replace weights of {settings.init}: leave out one of them"
        )
    elif settings.patches == "frozen":
        found.append(
            f"patches=frozen keeps random patches and contradicts first_layer={settings.first_layer}: leave one out"
        )
    return found
