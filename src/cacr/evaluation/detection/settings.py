"""The settings of detectors, and the recipe that they make."""

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
        "mini", description="mini, or one of the paper's: voc-c4-24k, coco-c4-1x, ..."
    )
    model: Literal["fpn", "c4"] | Auto = Field(
        "auto", description="fpn: a pyramid of the encoder's maps; c4: res5 of a ResNet in the head"
    )
    freeze: Annotated[int, Field(ge=0, le=16)] | Literal["all"] = Field(
        0, description="stages of the encoder that are not trained, the stem first; all: the whole encoder"
    )
    batch_norm: Literal["sync", "frozen"] = Field(
        "sync", description="sync: statistics of all processes; frozen: those of pretraining, for good"
    )
    batch_size: Annotated[int, Field(ge=1, le=4096)] | Auto = Field(
        "auto", description="images in a step, of all processes; rate and steps follow it"
    )
    optimizer: Literal["sgd", "adamw"] | Auto = Field(
        "auto", description="adamw for transformers, with a hundredth of the rate, else sgd"
    )
    lr: Annotated[float, Field(gt=0)] | Auto = Field("auto", description="highest learning rate")
    steps: Annotated[int, Field(ge=1, le=10**9)] | Auto = Field("auto", description="steps of training")
    sizes: Annotated[tuple[Pixels, ...], Field(min_length=1)] | Auto = Field(
        "auto", description="shorter sides of training images to draw from, in pixels"
    )
    test_size: Pixels | Auto = Field("auto", description="shorter side of test images, in pixels")
    max_size: Pixels | Auto = Field("auto", description="longest side of any image, in pixels")
    proposals: Annotated[int, Field(ge=4, le=4096)] | Auto = Field(
        "auto", description="boxes of an image from which the head learns"
    )
    precise: Annotated[int, Field(ge=0, le=10**6)] | Auto = Field(
        "auto", description="training images for the last statistics of batch norm; 0: the running ones"
    )
    save_minutes: float = Field(10.0, gt=0, le=1e6, description="minutes between two checkpoints")

    @property
    def beside(self) -> tuple[str, ...]:
        """A short training has the time for one from scratch beside it."""
        return ("scratch",) if self.recipe == "mini" else ()


def recipe_of(settings: DetectorSettings, images: int, *, transformer: bool = False) -> DetectionRecipe:
    """The recipe, for the batch and the number of images, with the settings that were given in place of its own."""
    recipe = DETECTION_RECIPES[settings.recipe]
    if settings.optimizer == "adamw" or (settings.optimizer == "auto" and transformer):
        recipe = recipe.with_adamw()
    if settings.batch_size != "auto":
        recipe = recipe.with_batch(settings.batch_size)
    names = ("model", "lr", "steps", "sizes", "test_size", "max_size", "proposals", "precise")
    given = {name: value for name in names if (value := getattr(settings, name)) != "auto"}
    return replace(recipe, **given).with_images(images)
