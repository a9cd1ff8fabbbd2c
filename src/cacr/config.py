"""Every setting of the commands, its default and its bounds; those of protocols are in `evaluation/protocols/`.

A setting that may be ``auto`` is resolved once, before training, by :mod:`cacr.training.resolve`; what it
became is printed and stored. Options of an objective or a view preset are not repeated here: they are the
keyword arguments of the registered thing (``t_neg`` of ``cacr``, ``temperature`` of ``info_nce``).
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.fields import FieldInfo

from cacr.durations import in_short

FORMAT = 1
"""Version of the run folder: of ``config.yaml``, the checkpoints and ``encoder.json``."""

MOST_SEED = 2**32 - 1
"""Largest seed: what every generator takes, scikit-learn's among them."""

Auto = Literal["auto"]
Options = dict[str, Any]

# Values of settings that may be `auto`: their bounds are written once, for settings before and after they are resolved.
Width = Annotated[float, Field(gt=0, le=4)]
ImageSize = Annotated[int, Field(ge=8, le=1024)]
Channels = Annotated[int, Field(ge=1, le=256)]
Dim = Annotated[int, Field(ge=2, le=65_536)]
NumberOfViews = Annotated[int, Field(ge=1, le=64)]
BatchSize = Annotated[int, Field(ge=2, le=1_000_000)]
Epochs = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0)]
Decay = Annotated[float, Field(ge=0)]
WarmupEpochs = Annotated[float, Field(ge=0, le=1_000_000)]
WorkerCount = Annotated[int, Field(ge=0, le=512)]
ImageCount = Annotated[int, Field(ge=0, le=10**12)]
EveryEpochs = Annotated[int, Field(ge=0, le=1_000_000)]
FirstLayer = Literal["random", "whitened", "frozen"]
Weights = Literal["kaiming", "paper"]
Statistics = Literal["batch", "fixed"]
EncoderRate = Annotated[float, Field(ge=0, le=1)]
Positions = Literal["fixed", "learned"]
Patches = Literal["frozen", "trained"]
OptimizerName = Literal["sgd", "lars", "adam", "adamw"]
ScheduleName = Literal["cosine", "cosine_epochs", "cosine_after_warmup", "multistep", "constant"]
Precision = Literal["float32", "bf16"]
Accelerator = Literal["auto", "cpu", "cuda"]
Time = Annotated[str, BeforeValidator(in_short)]


def listed_names(value: Any) -> Any:
    """Names from one string with commas; a list of them as it is."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(listed_names)]


class Settings(BaseModel):
    """Base of all settings: immutable, and unknown names are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True, serialize_by_alias=True
    )

    @classmethod
    def named(cls) -> dict[str, FieldInfo]:
        """Its fields by the names that users give; the alias of one whose name Python does not allow, such as from."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


IMAGES = "use only the images that a list names (.csv with a column path, or .txt); except:FILE: all others"


class PretrainSettings(Settings):
    """Settings of ``cacr pretrain``."""

    data: str = Field(description="folder of images, or the name of a data set: cifar10, stl10, digits, ...")
    method: str | None = Field(
        "cacr",
        description="what is trained: cacr, simclr, byol, ... (see `cacr list`); settings given beside it win",
    )
    recipe: str | None = Field(
        None,
        description="settings of an experiment of the paper (see `cacr list`); others given beside it win",
    )
    data_root: Path = Field(Path("data"), description="where named data sets lie, in torchvision's layout")
    download: bool = Field(False, description="allow downloads (data sets, timm's pretrained weights)")
    images: str | None = Field(None, description=IMAGES)
    labels: Path | None = Field(
        None, description="CSV file with columns path and label, for measuring; used if it labels every image"
    )
    imbalance: str = Field("none", description="none, linear, exponential or longtail:RATIO")
    imbalance_seed: int = Field(
        2021, ge=0, le=MOST_SEED, description="draws the images that an imbalance rule keeps"
    )
    max_unreadable: float = Field(
        0.1, ge=0, le=1, description="stop when a larger share of the images is unreadable"
    )

    encoder: str = Field("auto", description="small_alexnet, resnet18, resnet50, or any timm name")
    width: Width | Auto = Field("auto", description="factor on the channels of small_alexnet")
    image_size: ImageSize | Auto = Field("auto", description="side of a view in pixels")
    channels: Channels | Auto = Field("auto", description="of the images; auto: as the data has them")
    head: str = Field(
        "auto", description="between features and embeddings: normed, linear, mlp, moco_v2, ..."
    )
    predictor: str = Field(
        "auto", description="after the head, in frameworks that have one: moco_v3, byol or simsiam"
    )
    hidden: int | None = Field(
        None,
        ge=1,
        le=65_536,
        description="width of the hidden layers of head and predictor; none: that of the head's paper",
    )
    dim: Dim | Auto = Field("auto", description="dimension of the embeddings")
    init: str | None = Field(
        None,
        description="continue from weights: a run, an exported file or folder, timm:NAME@FILE, a checkpoint of other "
        "software, or timm:NAME (with --download)",
    )
    statistics: Literal["auto", Statistics] = Field(
        "auto",
        description="batch norm in the encoder: by each batch, or fixed as it was loaded; auto: fixed with an init",
    )
    encoder_rate: EncoderRate | Auto = Field(
        "auto",
        description="learning rate of the encoder as a share of the head's; auto: 1, less with an init",
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="factor on the rate of the encoder from each layer to the one before it; 1: all learn alike",
    )
    frozen_stages: int = Field(
        0,
        ge=0,
        le=1000,
        description="first stages of the encoder that stay as they were loaded, the stem being one",
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="measure and keep an average of the weights, which keeps this share of itself at each step; 0: the "
        "weights of the last step",
    )

    first_layer: Literal["auto", FirstLayer] = Field(
        "auto",
        description="how the first convolution starts: random, whitened (principal components of patches of the "
        "images), or frozen (whitened and not trained)",
    )
    weights: Literal["auto", Weights] = Field(
        "auto",
        description="how the other weights start: kaiming (small_alexnet), or as in the encoder's paper",
    )
    positions: Literal["auto", Positions] = Field(
        "auto", description="position embeddings of a transformer; auto: fixed in framework momentum"
    )
    patches: Literal["auto", Patches] = Field(
        "auto", description="patch projection of a transformer; auto: frozen in framework momentum"
    )

    framework: str = Field(
        "in_batch",
        description="what a query is compared with: in_batch, queue, momentum, siamese, prototypes, image_text",
    )
    framework_options: Options = Field({}, description="the framework's own settings, such as queue_size")
    objective: str = Field("cacr", description="what is minimised: cacr, info_nce, ... (see `cacr list`)")
    objective_options: Options = Field({}, description="the objective's own settings, such as t_neg")
    batch_norm: Literal["per_view", "joint"] = Field(
        "per_view", description="batch statistics of each view on its own, or of all views together"
    )
    sync_batch_norm: bool | Auto = Field(
        "auto",
        description="batch statistics of all processes together; auto: in momentum, siamese, prototypes",
    )

    preset: str = Field("auto", description="view preset (see `cacr list`)")
    view_options: Options = Field({}, description="the preset's own settings, such as grey")
    views: NumberOfViews | Auto = Field("auto", description="views per image: K + 1, or K with captions")
    weak_views: int = Field(
        0, ge=0, le=63, description="of these, the last ones: only cropped and mirrored, as ASCL's keys are"
    )

    batch_size: BatchSize | Auto = Field("auto", description="images in a step, over all processes")
    epochs: Epochs | Auto = Field("auto", description="passes over the data")
    max_steps: int | None = Field(
        None, ge=1, le=10**12, description="end after so many optimiser steps, schedule included"
    )
    time: Time | None = Field(
        None,
        description="how long the whole command takes, such as 90s, 30m or 1h30m: this machine is measured, and what "
        "fits is chosen; where no length is given: an hour on a CPU, but no more than the paper's epochs",
    )
    optimizer: Literal["auto", OptimizerName] = Field(
        "auto",
        description="sgd, lars, adam or adamw; auto: adamw for transformers, else sgd",
    )
    lr: Rate | Auto = Field("auto", description="peak learning rate; auto: base_lr x images in a step / 256")
    base_lr: float | None = Field(
        None, gt=0, description="learning rate for 256 images in a step; none: as usual for the optimiser"
    )
    bias_base_lr: float | None = Field(
        None, gt=0, description="base_lr of biases and norms; none: that of all weights"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD and LARS, and the first beta of Adam")
    weight_decay: Decay | Auto = Field("auto", description="of the optimiser; auto: that of its paper")
    schedule: Literal["auto", ScheduleName] = Field(
        "auto", description="of the learning rate; `_epochs`: changes between epochs only"
    )
    final_lr: float = Field(0.0, ge=0, lt=1, description="cosine: share of the peak rate at the end")
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        (0.775, 0.85, 0.925), description="multistep: where the rate drops, as shares of the run"
    )
    gamma: float = Field(0.1, gt=0, lt=1, description="multistep: factor of each drop")
    warmup_epochs: WarmupEpochs | Auto = Field("auto", description="epochs of linear warm-up")
    exchange: Literal["gather", "ring"] = Field(
        "gather",
        description="between processes: all embeddings everywhere, or keys passed around (less memory)",
    )
    encode_chunk: int | None = Field(
        None,
        ge=2,
        le=1_000_000,
        description="images a process encodes at a time, twice: less memory, more time",
    )
    accumulate: int = Field(
        1, ge=1, le=100_000, description="batches whose gradients are averaged in one step"
    )
    clip_grad: float | None = Field(None, gt=0, description="largest norm of the gradient")

    precision: Literal["auto", Precision] = Field("auto", description="bf16 where the processor has it")
    channels_last: bool = Field(True, description="memory layout of images and convolutions")
    accelerator: Accelerator = Field("auto", description="cpu, cuda, or whichever there is")
    devices: int = Field(1, ge=1, le=1024, description="processes on this machine")
    nodes: int = Field(1, ge=1, le=10_000, description="machines")
    workers: WorkerCount | Auto = Field("auto", description="processes that decode image files")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="of everything random")

    log_every_steps: int = Field(10, ge=1, le=10**12, description="steps between lines of metrics.jsonl")
    checkpoint_every_steps: Annotated[int, Field(ge=1, le=10**12)] | Auto = Field(
        "auto", description="steps between checkpoints; auto: an epoch, but at most every 20 seconds"
    )
    held_out: ImageCount | Auto = Field(
        "auto",
        description="images kept from training to measure on; auto: none where there is a test part or fewer than "
        "1,280 images, else a twentieth, but at most 256 or a thirty-second, whichever is more, and at most 2,048",
    )
    measured_images: Annotated[int, Field(ge=2, le=10**12)] | Literal["all"] | None = Field(
        None,
        description="images that diagnostics are measured on, of the test part or of those held out; all: every one; "
        "none: a thirty-second of the training images, but 256 to 2,048",
    )
    measure_every_epochs: EveryEpochs | Auto = Field(
        "auto",
        description="epochs between diagnostics; auto: 1, more where that would take over 3 % of the time; "
        "0: never",
    )
    measure_every_steps: int | None = Field(
        None, ge=1, le=10**12, description="steps between diagnostics, in place of epochs; none: by epochs"
    )
    probe_every_epochs: EveryEpochs = Field(
        0,
        description="epochs between linear classifiers on all labels, to see how fast features get good; 0: never",
    )
    on_collapse: Literal["warn", "stop"] = Field(
        "warn", description="when the embeddings collapse or the loss diverges: warn, or stop the run"
    )
    keep_best: bool = Field(
        True,
        description="keep the encoder with the most evenly spread embeddings in best/, beside the last one",
    )
    tensorboard: bool = Field(False, description="also log for TensorBoard (extra: tensorboard)")
    wandb: bool = Field(False, description="also log to Weights & Biases (extra: wandb)")


class ResolvedSettings(PretrainSettings):
    """Settings of a run as :func:`cacr.training.resolve.resolve` leaves them and ``config.yaml`` keeps them.

    Nothing in them is ``auto`` any more but two things that are decided anew at every start, because they say where
    and how a run is carried on and not what it learns: ``accelerator`` and ``checkpoint_every_steps``.
    """

    width: Width
    image_size: ImageSize
    channels: Channels = 3
    dim: Dim
    method: str | None = None
    predictor: str = "moco_v3"
    first_layer: FirstLayer = "random"
    weights: Weights = "paper"
    statistics: Statistics = "batch"
    encoder_rate: EncoderRate = 1.0
    positions: Positions
    patches: Patches
    sync_batch_norm: bool
    views: NumberOfViews
    batch_size: BatchSize
    epochs: Epochs
    optimizer: OptimizerName
    lr: Rate
    weight_decay: Decay
    schedule: ScheduleName
    warmup_epochs: WarmupEpochs
    precision: Precision
    workers: WorkerCount
    held_out: ImageCount
    measure_every_epochs: EveryEpochs

    @field_validator("encoder", "head", "predictor", "preset")
    @classmethod
    def _is_named(cls, value: str) -> str:
        if value == "auto":
            raise ValueError("must be a name")
        return value


RESUMABLE = frozenset(
    {
        "data",
        "labels",
        "epochs",
        "max_steps",
        "data_root",
        "download",
        "workers",
        "devices",
        "nodes",
        "accelerator",
        "exchange",
    }
    | {"log_every_steps", "checkpoint_every_steps", "tensorboard", "wandb"}
    | {"measure_every_epochs", "measure_every_steps", "probe_every_epochs", "on_collapse", "keep_best"}
)
"""Settings that may differ when a run is resumed: they say how far and where it runs, not what it learns."""


class EvaluateSettings(Settings):
    """Settings of ``cacr evaluate``."""

    data: str = Field(description="labelled data that the classifiers learn from")
    test_data: str | None = Field(
        None, description="labelled data that they are judged on; else a test part or a fifth"
    )
    data_root: Path = Field(Path("data"), description="where named data sets lie, in torchvision's layout")
    download: bool = Field(False, description="allow downloads of data sets")
    images: str | None = Field(None, description=f"of data: {IMAGES}")
    labels: Path | None = Field(
        None, description="CSV file with columns path and label; default: the data's own labels"
    )
    protocol: Names = Field(("knn", "linear"), description="what to measure (see `cacr list`)")
    options: Options = Field({}, description="settings of the protocols by name, such as k or knn.k")
    held_out: bool = Field(
        False,
        description="judge on a fifth of the data that the seed draws, even where there is a test part: to choose "
        "settings without its labels",
    )
    metric: str = Field(
        "auto",
        description="what protocols report, but for retrieval and cluster: accuracy, mean-per-class, ...; "
        "auto: as the data set has it",
    )
    max_unreadable: float = Field(
        0.1, ge=0, le=1, description="stop when a larger share of the images is unreadable"
    )
    memory_gb: Annotated[float, Field(ge=0, le=1e9)] | Auto = Field(
        "auto", description="features that take more are kept in a file; auto: half of the free memory"
    )
    devices: int = Field(1, ge=1, le=1024, description="processes on this machine that encode")
    baselines: Names = Field(
        ("auto",),
        description="measured beside the encoder: start (the weights it started from), untrained, scratch, pixels, or "
        "any other encoder, such as timm:NAME@FILE; "
        "auto: start for a run with an init, and all that there are for protocols that take seconds",
    )
    batch_size: int = Field(256, ge=1, le=1_000_000, description="images encoded at once")
    workers: WorkerCount | Auto = Field("auto", description="processes that decode image files")
    accelerator: Accelerator = Field("auto", description="cpu, cuda, or whichever there is")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="of splits, draws and classifiers")
