"""Every setting of the commands, its default and its bounds; settings of protocols are in `evaluation/protocols/`.

:mod:`cacr.training.settings.resolve` replaces each ``auto`` once, before training; the chosen values are printed and
stored. Options of objectives and view presets are not repeated here: they are the keyword arguments of the registered
object (``t_neg`` of ``cacr``, ``temperature`` of ``info_nce``).
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from cacr.base_settings import Settings
from cacr.durations import in_short
from cacr.feature_view import FeatureView

FORMAT = 1
"""Format version of the run folder: of ``config.yaml``, the checkpoints and ``encoder.json``."""

MOST_SEED = 2**32 - 1
"""Largest seed that every generator accepts, including scikit-learn's."""

Auto = Literal["auto"]
Options = dict[str, Any]

# Bounds of settings that may be `auto`: written once, used before and after the settings are resolved.
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
    """Split one string at its commas; return a list unchanged."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(listed_names)]


IMAGES = "use only the images in this list (.csv with a column path, or .txt); except:FILE: use all others"


class PretrainSettings(Settings):
    """Settings of ``cacr pretrain``."""

    data: str = Field(description="folder of images, or the name of a data set: cifar10, stl10, digits, ...")
    method: str | None = Field(
        "cacr",
        description="training method: cacr, simclr, ... (see `cacr list methods`); settings that you give override it",
    )
    recipe: str | None = Field(
        None,
        description="an experiment of the paper (see `cacr list recipes`); settings that you give override it",
    )
    data_root: Path = Field(Path("data"), description="folder of named data sets, in torchvision's layout")
    download: bool = Field(False, description="allow downloads (data sets, timm's pretrained weights)")
    images: str | None = Field(None, description=IMAGES)
    labels: Path | None = Field(
        None, description="CSV file with columns path and label, for measuring; used if it labels every image"
    )
    imbalance: str = Field("none", description="unbalance the classes: linear, exponential or longtail:RATIO")
    imbalance_seed: int = Field(
        2021, ge=0, le=MOST_SEED, description="chooses the images that an imbalance rule keeps"
    )
    max_unreadable: float = Field(
        0.1, ge=0, le=1, description="stop if more than this share of the images is unreadable"
    )

    encoder: str = Field("auto", description="network: small_alexnet, resnet18, resnet50, or any timm name")
    width: Width | Auto = Field("auto", description="factor on the number of channels of small_alexnet")
    image_size: ImageSize | Auto = Field("auto", description="side of a view, in pixels")
    feature_view: FeatureView | Auto | None = Field(
        "auto", description="images for features, if larger: {size: 224, resize: 256}; auto: those of --init"
    )
    channels: Channels | Auto = Field(
        "auto", description="number of channels of the images; auto: that of the data"
    )
    head: str = Field(
        "auto", description="network from features to embeddings: normed, linear, mlp, moco_v2, ..."
    )
    predictor: str = Field(
        "auto", description="network after the head, in frameworks that have one: moco_v3, byol or simsiam"
    )
    hidden: int | None = Field(
        None,
        ge=1,
        le=65_536,
        description="width of the hidden layers of head and predictor; none: as in the head's paper",
    )
    dim: Dim | Auto = Field("auto", description="dimension of the embeddings")
    init: str | None = Field(
        None,
        description="start from trained weights: a run, an exported file or folder, timm:NAME@FILE, a checkpoint of "
        "other software, or timm:NAME (with --download)",
    )
    statistics: Literal["auto", Statistics] = Field(
        "auto",
        description="batch norm of the encoder; batch: statistics of each batch; fixed: statistics as loaded; auto: "
        "fixed with --init, else batch",
    )
    encoder_rate: EncoderRate | Auto = Field(
        "auto",
        description="learning rate of the encoder as a share of the head's; auto: 0.001 with --init, else 1",
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="factor on the learning rate from each encoder layer to the layer before it; 1: the same rate "
        "for all layers",
    )
    frozen_stages: int = Field(
        0,
        ge=0,
        le=1000,
        description="number of first stages of the encoder that are not trained; the stem counts as one",
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of a moving average of the weights, such as 0.999; the averaged weights are measured and "
        "saved; 0: no average",
    )

    first_layer: Literal["auto", FirstLayer] = Field(
        "auto",
        description="start of the first convolution; random; whitened: principal components of image patches; "
        "frozen: whitened and not trained",
    )
    weights: Literal["auto", Weights] = Field(
        "auto",
        description="start of the other weights: kaiming (small_alexnet only), or as in the encoder's paper",
    )
    positions: Literal["auto", Positions] = Field(
        "auto", description="position embeddings of a transformer; auto: fixed in framework momentum"
    )
    patches: Literal["auto", Patches] = Field(
        "auto", description="patch projection of a transformer; auto: frozen in framework momentum"
    )

    framework: str = Field(
        "in_batch",
        description="where positives and negatives come from: in_batch, queue, momentum, siamese, ...",
    )
    framework_options: Options = Field({}, description="options of the framework, such as queue_size")
    objective: str = Field("cacr", description="loss to minimise: cacr, ... (see `cacr list objectives`)")
    objective_options: Options = Field({}, description="options of the objective, such as t_neg")
    batch_norm: Literal["per_view", "joint"] = Field(
        "per_view",
        description="batch statistics: per_view (each view separately) or joint (all views together)",
    )
    sync_batch_norm: bool | Auto = Field(
        "auto", description="share batch statistics between processes; auto: in momentum, siamese, prototypes"
    )

    preset: str = Field("auto", description="augmentations of the views (see `cacr list presets`)")
    view_options: Options = Field({}, description="options of the preset, such as grey")
    views: NumberOfViews | Auto = Field("auto", description="views per image: K + 1 for K positives")
    weak_views: int = Field(
        0,
        ge=0,
        le=63,
        description="number of views, at the end, that are only cropped and flipped (ASCL's keys)",
    )

    batch_size: BatchSize | Auto = Field("auto", description="images per step, over all processes")
    epochs: Epochs | Auto = Field("auto", description="passes over the data")
    max_steps: int | None = Field(
        None, ge=1, le=10**12, description="stop after this many optimiser steps; the schedule ends there too"
    )
    time: Time | None = Field(
        None,
        description="time that the whole command should take, such as 90s, 30m or 1h30m: cacr measures this machine "
        "and chooses settings that fit; default on a CPU if no length is given: 1h, but at most 200 epochs",
    )
    optimizer: Literal["auto", OptimizerName] = Field(
        "auto",
        description="optimiser: sgd, lars, adam or adamw; auto: adamw for transformers and captions, else sgd",
    )
    lr: Rate | Auto = Field("auto", description="peak learning rate; auto: base_lr x images per step / 256")
    base_lr: float | None = Field(
        None,
        gt=0,
        description="learning rate for 256 images per step; none: that of the method or the optimiser",
    )
    bias_base_lr: float | None = Field(
        None, gt=0, description="base_lr of biases and norms; none: that of the method or of other weights"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD and LARS, first beta of Adam")
    weight_decay: Decay | Auto = Field(
        "auto", description="weight decay; auto: that of the method or of the optimiser's paper"
    )
    schedule: Literal["auto", ScheduleName] = Field(
        "auto",
        description="learning rate over the run; cosine: lowered at each step; cosine_epochs: lowered after each "
        "epoch; cosine_after_warmup: the cosine starts after the warm-up; multistep: at milestones; constant; "
        "auto: cosine",
    )
    final_lr: float = Field(
        0.0, ge=0, lt=1, description="cosine: final learning rate, as a share of the peak"
    )
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        (0.775, 0.85, 0.925), description="multistep: when the rate drops, as shares of the run"
    )
    gamma: float = Field(0.1, gt=0, lt=1, description="multistep: factor of each drop")
    warmup_epochs: WarmupEpochs | Auto = Field(
        "auto", description="epochs of linear warm-up; auto: 5 % of a cosine run"
    )
    exchange: Literal["gather", "ring"] = Field(
        "gather", description="between processes: gather all embeddings; ring: pass keys around (less memory)"
    )
    encode_chunk: int | None = Field(
        None,
        ge=2,
        le=1_000_000,
        description="images per forward pass; the backward pass recomputes activations: less memory, more time",
    )
    accumulate: int = Field(
        1, ge=1, le=100_000, description="batches whose gradients are averaged in one step"
    )
    clip_grad: float | None = Field(None, gt=0, description="largest norm of the gradient; none: no clipping")

    precision: Literal["auto", Precision] = Field(
        "auto", description="number format: float32 or bf16; auto: bf16 if the processor has it"
    )
    channels_last: bool = Field(True, description="memory layout of images and convolutions")
    accelerator: Accelerator = Field("auto", description="device: cpu or cuda; auto: cuda if there is a GPU")
    devices: int = Field(1, ge=1, le=1024, description="number of processes on this machine")
    nodes: int = Field(1, ge=1, le=10_000, description="number of machines")
    workers: WorkerCount | Auto = Field("auto", description="number of processes that decode image files")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="seed of everything random")

    log_every_steps: int = Field(10, ge=1, le=10**12, description="steps between lines of metrics.jsonl")
    checkpoint_every_steps: Annotated[int, Field(ge=1, le=10**12)] | Auto = Field(
        "auto", description="steps between checkpoints; auto: an epoch, but at least 20 seconds apart"
    )
    held_out: ImageCount | Auto = Field(
        "auto",
        description="images that are not trained on, to measure on; auto: none if the data has a test part or fewer "
        "than 1,280 images; else a twentieth, but at most 256 or a thirty-second, whichever is more, and at most 2,048",
    )
    measured_images: Annotated[int, Field(ge=2, le=10**12)] | Literal["all"] | None = Field(
        None,
        description="images that diagnostics are measured on, from the test part or the held-out images; all: every "
        "one; none: a thirty-second of the number of training images, but at least 256 and at most 2,048",
    )
    measure_every_epochs: EveryEpochs | Auto = Field(
        "auto",
        description="epochs between diagnostics; auto: 1, or more if that takes over 3 % of the time; 0: never",
    )
    measure_every_steps: int | None = Field(
        None, ge=1, le=10**12, description="steps between diagnostics, instead of epochs; none: by epochs"
    )
    probe_every_epochs: EveryEpochs = Field(
        0, description="epochs between linear probes on all labels: how fast features improve; 0: never"
    )
    probe_every_steps: int | None = Field(
        None, ge=1, le=10**12, description="steps between linear probes, instead of epochs; none: by epochs"
    )
    on_collapse: Literal["warn", "stop"] = Field(
        "warn", description="if the embeddings collapse or the loss diverges: warn, or stop the run"
    )
    keep_best: bool = Field(
        True, description="also keep the encoder with the most evenly spread embeddings, in best/"
    )
    tensorboard: bool = Field(False, description="also log for TensorBoard (extra: tensorboard)")
    wandb: bool = Field(False, description="also log to Weights & Biases (extra: wandb)")


class ResolvedSettings(PretrainSettings):
    """Settings of a run after :func:`cacr.training.settings.resolve.resolve`, as stored in ``config.yaml``.

    Only ``accelerator`` and ``checkpoint_every_steps`` may still be ``auto``. They are decided again at every start,
    because they say where and how a run continues, not what it learns.
    """

    width: Width
    image_size: ImageSize
    feature_view: FeatureView | None = None
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
    {"data", "labels", "epochs", "max_steps", "data_root", "download", "workers", "devices", "nodes"}
    | {"accelerator", "exchange", "log_every_steps", "checkpoint_every_steps", "tensorboard", "wandb"}
    | {"measure_every_epochs", "measure_every_steps", "probe_every_epochs", "probe_every_steps"}
    | {"on_collapse", "keep_best"}
)
"""Settings that may differ when a run is resumed: they say how far and where it runs, not what it learns."""


class EvaluateSettings(Settings):
    """Settings of ``cacr evaluate``."""

    data: str = Field(description="labelled data that the classifiers are trained on")
    test_data: str | None = Field(
        None, description="labelled data to test on; default: the test part of data, or a fifth of it"
    )
    data_root: Path = Field(Path("data"), description="folder of named data sets, in torchvision's layout")
    download: bool = Field(False, description="allow downloads of data sets")
    images: str | None = Field(None, description=f"in data, {IMAGES}")
    labels: Path | None = Field(
        None, description="CSV file with columns path and label; default: the labels of the data itself"
    )
    protocol: Names = Field(
        ("knn", "linear"), description="what to measure, such as knn,linear (see `cacr list protocols`)"
    )
    options: Options = Field({}, description="options of the protocols by name, such as k or knn.k")
    held_out: bool = Field(
        False,
        description="test on a fifth of the data, drawn by the seed, even if there is a test part: to choose "
        "settings without its labels",
    )
    metric: str = Field(
        "auto",
        description="score of the protocols that classify: accuracy, mean-per-class, ... (see `cacr "
        "list metrics`); auto: the metric of the data set",
    )
    max_unreadable: float = Field(
        0.1, ge=0, le=1, description="stop if more than this share of the images is unreadable"
    )
    memory_gb: Annotated[float, Field(ge=0, le=1e9)] | Auto = Field(
        "auto",
        description="keep features in a file if they take more than this; auto: half of the free memory",
    )
    devices: int = Field(1, ge=1, le=1024, description="number of processes on this machine that encode")
    baselines: Names = Field(
        ("auto",),
        description="encoders to compare with: start (the weights it started from), untrained, scratch, pixels, or "
        "any other encoder, such as timm:NAME@FILE; auto: start for a run with --init, and all available ones for "
        "protocols that take seconds",
    )
    batch_size: int = Field(256, ge=1, le=1_000_000, description="images per forward pass")
    workers: WorkerCount | Auto = Field("auto", description="number of processes that decode image files")
    accelerator: Accelerator = Field("auto", description="device: cpu or cuda; auto: cuda if there is a GPU")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="seed of splits, draws and classifiers")
