"""The settings of every protocol, with defaults and bounds, as :mod:`cacr.config` has those of the commands."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cacr.config import Auto, Settings


class KnnSettings(Settings):
    """Weighted nearest neighbours on cached features."""

    k: int = Field(20, ge=1, le=10**9, description="neighbours that vote")
    temperature: float = Field(0.07, gt=0, description="a neighbour votes with exp(cosine / temperature)")
    labels_per_class: int | None = Field(None, ge=1, description="use only so many labels of each class")
    draws: int = Field(5, ge=1, le=1000, description="draws of those labels, for mean and spread")


class LinearSettings(Settings):
    """A linear classifier on cached features; the learning rate is chosen on a validation split."""

    lrs: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), min_length=1, description="learning rates of SGD, trained at once"
    )
    epochs: int = Field(50, ge=1, le=1_000_000, description="passes over the features")
    min_steps: int = Field(300, ge=1, le=10**9, description="further passes until there were so many steps")
    batch_size: int = Field(512, ge=1, le=1_000_000, description="features in a step")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty on the weights, times one half")
    validation: float = Field(
        0.2, gt=0, le=0.5, description="share of the training labels in a fold that chooses the rate"
    )
    labels_per_class: int | None = Field(None, ge=1, description="use only so many labels of each class")
    draws: int = Field(5, ge=1, le=1000, description="draws of those labels, for mean and spread")


class PaperLinearSettings(Settings):
    """The paper's small-scale probe: features of fresh random crops, Adam; the last epoch is the headline."""

    lr: float = Field(1e-3, gt=0, description="of Adam")
    epochs: int = Field(100, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(128, ge=2, le=1_000_000, description="images in a step")
    flip: Annotated[float, Field(ge=0, le=1)] | Auto = Field(
        "auto", description="share of mirrored crops; auto: as in the encoder's training views"
    )


class RetrievalSettings(Settings):
    """Search of the training images for those of a test image's class."""

    own_measure: ClassVar[bool] = True

    ks: tuple[Annotated[int, Field(ge=1, le=10**9)], ...] = Field(
        (1, 5, 10), description="nearest images, for recall@k"
    )


class ClusterSettings(Settings):
    """k-means on features of unit length, compared with the classes."""

    own_measure: ClassVar[bool] = True

    clusters: Annotated[int, Field(ge=1, le=1_000_000)] | Auto = Field(
        "auto", description="clusters; auto: as many as classes"
    )
    restarts: int = Field(10, ge=1, le=1000, description="starts of k-means; the tightest clusters are kept")


class MocoLinearSettings(Settings):
    """MoCo's linear probe."""

    lr: float = Field(30.0, gt=0, description="of SGD, for any batch size")
    epochs: int = Field(100, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(256, ge=2, le=1_000_000, description="images in a step")


class MocoV3LinearSettings(Settings):
    """MoCo v3's linear probe."""

    lr: Annotated[float, Field(gt=0)] | Auto = Field(
        "auto", description="of SGD for a batch of 256; auto: 3 for ViTs, 0.1 for others"
    )
    epochs: int = Field(90, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(1024, ge=2, le=1_000_000, description="images in a step")


class HclLinearSettings(Settings):
    """HCL's linear probe, on the views of pretraining."""

    lr: float = Field(1e-3, gt=0, description="of Adam")
    epochs: int = Field(100, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(512, ge=2, le=1_000_000, description="images in a step")
    preset: str | None = Field(
        None, description="views to train on; those of the encoder's pretraining if not given"
    )
    compat: bool = Field(False, description="let the encoder's batch norm drift, as HCL's code did")


class TransferSettings(Settings):
    """The ELEVATER protocol with all training labels: settings are searched for, then a final training."""

    search: Literal["elevater", "quick", "optuna"] = Field(
        "elevater", description="the protocol's own search of at most 90 settings, nine of them, or optuna"
    )
    trials: int = Field(30, ge=1, le=100_000, description="settings that optuna tries")
    epochs: int = Field(
        10, ge=1, le=1_000_000, description="passes over the training part with each setting tried"
    )
    judge: Literal["last", "best"] = Field(
        "last", description="epoch that a setting tried counts by: the last, or as in the benchmark the best"
    )
    final_epochs: int = Field(
        50, ge=1, le=1_000_000, description="passes over all labels with the best setting"
    )


class FewShotSettings(TransferSettings):
    """The ELEVATER protocol with a few labels of each class."""

    labels_per_class: int = Field(5, ge=2, description="use so many labels of each class")
    draws: int = Field(3, ge=1, le=1000, description="draws of those labels, for mean and spread")


class FinetuneSettings(Settings):
    """The whole network trained end to end; learning rate and weight decay are chosen on a validation split."""

    recipe: Literal["auto", "resnet", "vit"] = Field(
        "auto", description="resnet: SGD; vit: AdamW, layer-wise decay, label smoothing; auto: by the encoder"
    )
    lrs: tuple[Annotated[float, Field(gt=0)], ...] | Auto = Field(
        "auto", description="learning rates for a batch of 256 to choose from"
    )
    weight_decays: tuple[Annotated[float, Field(ge=0)], ...] | Auto = Field(
        "auto", description="weight decays to choose from"
    )
    layer_decay: Annotated[float, Field(gt=0, le=1)] | Auto = Field(
        "auto", description="factor on the learning rate from each layer to the one before"
    )
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] | Auto = Field(
        "auto", description="share of the target that is spread over all classes"
    )
    search: Literal["grid", "quick", "optuna"] = Field(
        "grid", description="every rate with every decay, the middle ones alone, or optuna between them"
    )
    trials: int = Field(12, ge=1, le=100_000, description="settings that optuna tries")
    epochs: int = Field(30, ge=1, le=1_000_000, description="passes over the training images")
    min_steps: int = Field(300, ge=1, le=10**9, description="further passes until there were so many steps")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the rate rises")
    batch_size: int = Field(128, ge=2, le=1_000_000, description="images in a step")
    validation: float = Field(0.2, gt=0, le=0.5, description="share of the labels that chooses the setting")
    labels_per_class: int | None = Field(None, ge=2, description="use only so many labels of each class")
    draws: int = Field(3, ge=1, le=1000, description="draws of those labels, for mean and spread")
