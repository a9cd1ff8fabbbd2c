"""Settings of detectors, and how they change a recipe."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from cacr.config import Auto
from cacr.evaluation.detection.recipes import DETECTION_RECIPES, DetectionRecipe
from cacr.evaluation.registry import ProtocolSettings
from cacr.registry import nearest

Pixels = Annotated[int, Field(ge=32, le=4096)]


def _known_recipe(name: str) -> str:
    if name not in DETECTION_RECIPES:
        raise ValueError(f"there is no recipe {name!r}; {nearest(name, DETECTION_RECIPES.names())}")
    return name


class DetectorSettings(ProtocolSettings):
    """How a detector is trained."""

    own_measure: ClassVar[bool] = True

    recipe: Annotated[str, AfterValidator(_known_recipe)] = Field(
        "mini", description="mini, or a recipe of the paper: voc-c4-24k, coco-c4-1x, ..."
    )
    model: Literal["fpn", "c4"] | Auto = Field(
        "auto", description="fpn: a pyramid of the encoder's maps; c4: res5 of a ResNet in the head"
    )
    freeze: Annotated[int, Field(ge=0, le=16)] | Literal["all"] = Field(
        0, description="number of first stages of the encoder that are not trained; all: the whole encoder"
    )
    batch_norm: Literal["sync", "frozen"] = Field(
        "sync", description="sync: statistics of all processes; frozen: fixed statistics of pretraining"
    )
    batch_size: Annotated[int, Field(ge=1, le=4096)] | Auto = Field(
        "auto", description="images per step, over all processes; changes learning rate and steps too"
    )
    optimizer: Literal["sgd", "adamw"] | Auto = Field(
        "auto",
        description="sgd or adamw; auto: adamw with a hundredth of the rate for transformers, else sgd",
    )
    lr: Annotated[float, Field(gt=0)] | Auto = Field("auto", description="peak learning rate")
    steps: Annotated[int, Field(ge=1, le=10**9)] | Auto = Field(
        "auto", description="number of training steps"
    )
    sizes: Annotated[tuple[Pixels, ...], Field(min_length=1)] | Auto = Field(
        "auto", description="shorter sides of training images to choose from, in pixels"
    )
    test_size: Pixels | Auto = Field("auto", description="shorter side of test images, in pixels")
    max_size: Pixels | Auto = Field("auto", description="longest side of any image, in pixels")
    proposals: Annotated[int, Field(ge=4, le=4096)] | Auto = Field(
        "auto", description="number of boxes per image that the head is trained on"
    )
    precise: Annotated[int, Field(ge=0, le=10**6)] | Auto = Field(
        "auto", description="training images for the final batch-norm statistics; 0: running statistics"
    )
    save_minutes: float = Field(10.0, gt=0, le=1e6, description="minutes between two checkpoints")

    @property
    def default_baselines(self) -> tuple[str, ...]:
        """A detector from scratch with the short recipe, which takes little time; none with others."""
        return ("scratch",) if self.recipe == "mini" else ()


def recipe_of(settings: DetectorSettings, images: int, *, transformer: bool = False) -> DetectionRecipe:
    """The recipe, adapted to the batch size and the number of images; given settings override it."""
    recipe = DETECTION_RECIPES[settings.recipe]
    if settings.optimizer == "adamw" or (settings.optimizer == "auto" and transformer):
        recipe = recipe.with_adamw()
    if settings.batch_size != "auto":
        recipe = recipe.with_batch(settings.batch_size)
    names = ("model", "lr", "steps", "sizes", "test_size", "max_size", "proposals", "precise")
    given = {name: value for name in names if (value := getattr(settings, name)) != "auto"}
    return replace(recipe, **given).with_images(images)
