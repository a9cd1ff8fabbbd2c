"""Fine-tune whole networks with random crops: the recipes by kind of network, and the training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cacr.data.order import count_batches, least_batch
from cacr.data.source import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.network import Network, first_images, train_network
from cacr.evaluation.engine.regularised import (
    NONE,
    PixelChange,
    Regularisation,
    drop_paths,
    mixing,
    seeded,
)
from cacr.evaluation.engine.tuning import Setting
from cacr.feature_view import Interpolation
from cacr.features.encode import ImageLoader, as_trained, centre_view
from cacr.features.machine import Machine
from cacr.features.room import fitted, require_learning
from cacr.randomness import mixed_seed
from cacr.training.optimization.schedules import ending_at, warm_cosine
from cacr.views import probe_train


@dataclass(frozen=True)
class FinetuneRecipe:
    """How a kind of network is fine-tuned.

    Attributes:
        adam: AdamW; otherwise SGD with Nesterov momentum 0.9.
        lrs: Learning rates for a batch of 256 images.
        weight_decays: Weight decays.
        layer_decay: Factor on the learning rate from each layer to the one before.
        label_smoothing: Share of the target that is divided among all classes.
        regularisation: Augmentation of images, and dropped residual paths.
        interpolation: Filter that resizes the random crops.
        norm: Whether a batch norm without weights stands before the classifier.
        final: Share of the rate at the last step.
    """

    adam: bool
    lrs: tuple[float, ...]
    weight_decays: tuple[float, ...]
    layer_decay: float
    label_smoothing: float
    regularisation: Regularisation = NONE
    interpolation: Interpolation = "bilinear"
    norm: bool = True
    final: float = 0.0


FINETUNE_RECIPES = {
    "resnet": FinetuneRecipe(False, (0.01, 0.03, 0.1), (1e-4,), 1.0, 0.0),
    "vit": FinetuneRecipe(True, (2.5e-4, 5e-4, 1e-3), (0.05,), 0.75, 0.1),
    "deit": FinetuneRecipe(
        True,
        (1.25e-4, 2.5e-4, 5e-4),
        (0.05,),
        1.0,
        0.1,
        Regularisation(mixup=0.8, cutmix=1.0, augment="rand-m9-mstd0.5-inc1", erasing=0.25, drop_path=0.1),
        interpolation="bicubic",
        norm=False,
        final=0.02,
    ),
}
"""``deit``: the middle rate is DeiT's, 5e-4 for 512 images, and ends at 1e-5. Its repeated augmentation and its moving
average of the weights are left out."""


@dataclass(frozen=True)
class Length:
    """How long a network is trained.

    Attributes:
        epochs: Passes over the training images.
        min_steps: More passes are added until there are this many steps.
        warmup: Share of the steps in which the rate rises.
        batch_size: Images per step.
    """

    epochs: int
    min_steps: int
    warmup: float
    batch_size: int

    def on(self, images: int) -> tuple[int, int]:
        """Number of epochs, and of steps per epoch, for this number of images."""
        batch = min(self.batch_size, images)
        per_epoch = count_batches(images, batch, least_batch(batch))
        return max(self.epochs, math.ceil(self.min_steps / per_epoch)), per_epoch


def fine_tune(
    task: Task,
    recipe: FinetuneRecipe,
    length: Length,
    setting: Setting,
    rows: Indices,
    seed: int,
    head1: nn.Module | None,
) -> Network:
    """Train a network on some images and return it.

    Args:
        task: the encoder and the data.
        recipe: how it is trained.
        length: for how long.
        setting: rate for a batch of 256 images, and weight decay.
        rows: numbers of the training images.
        seed: seed of initial weights, order and views.
        head1: the first layer of the trained head, which is then trained too; None: classify the features.
    """
    info, device = task.encoder.info, task.machine.device
    batch = min(length.batch_size, len(rows))
    crop = probe_train(info.image_size, info.mean, info.std).views[0]
    view = replace(as_trained(crop, info), interpolation=recipe.interpolation)
    machine = Machine(batch, task.machine.workers, device)
    source, labels = task.data.train.subset(rows), torch.from_numpy(task.data.train_labels[rows])
    how = recipe.regularisation
    change = PixelChange(how.augment, info.mean) if how.augment else None
    loader = ImageLoader(
        info,
        source,
        view,
        machine,
        shuffle=True,
        seed=seed,
        max_unreadable=task.max_unreadable,
        change=change,
    )
    network = Network(task.encoder, task.data.classes, seed, device, head1, norm=recipe.norm)
    if how.drop_path:
        drop_paths(network, how.drop_path)
    states, batches_of = 2 if recipe.adam else 1, "finetune.batch_size"
    require_learning(task.encoder, network, source, machine, view.size, states=states, setting=batches_of)
    some = first_images(rows, seed)
    network.begin_at(images for images, _ in in_order(task, some))
    epochs, per_epoch = length.on(len(rows))
    lr = setting.lr * batch / 256

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for images, index in loader.epoch(epoch):
            yield images, labels[index].to(device)

    done = 0

    def ended() -> None:
        nonlocal done
        done += 1
        if task.progress is not None:
            task.progress(done, epochs)

    with seeded(mixed_seed("fine-tuning", seed)):  # which paths are left out
        train_network(
            network,
            make_optimizer(network, recipe, lr, setting.weight_decay),
            batches,
            epochs=epochs,
            per_epoch=per_epoch,
            label_smoothing=recipe.label_smoothing,
            rate=ending_at(warm_cosine(epochs * per_epoch, length.warmup), recipe.final),
            mix=mixing(how, task.data.classes, recipe.label_smoothing, seed),
            after_epoch=ended,
        )
    return network


def make_optimizer(
    network: Network, recipe: FinetuneRecipe, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """SGD or AdamW; vectors (biases and norms) have no weight decay, and layers near the image have a lower rate.

    The classifier (and the first layer of the trained head, if used) has the full rate ``lr``; the layer before it has
    ``layer_decay`` times this rate, the next one its square times the rate, and so on.
    """
    from timm.optim import param_groups_layer_decay  # type: ignore[attr-defined]

    undecayed: set[str] = getattr(
        network.backbone, "no_weight_decay", set
    )()  # position embeddings and the like
    groups = param_groups_layer_decay(
        network.backbone,
        weight_decay,
        no_weight_decay_list=tuple(undecayed),
        layer_decay=recipe.layer_decay,
    )
    for group in groups:
        group["lr"] = lr * recipe.layer_decay * group.pop("lr_scale")
    top = [*network.head1.parameters(), *network.head.parameters()]
    for decay, chosen in (
        (weight_decay, [p for p in top if p.ndim > 1]),
        (0.0, [p for p in top if p.ndim == 1]),
    ):
        groups.append({"params": chosen, "weight_decay": decay, "lr": lr})
    if recipe.adam:
        return torch.optim.AdamW(groups, lr=lr)
    return torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True)


def in_order(task: Task, rows: Indices | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Centre crops of some training images, or of all test images, with their labels."""
    data, info = task.data, task.encoder.info
    source = data.test if rows is None else data.train.subset(rows)
    labels = torch.from_numpy(data.test_labels if rows is None else data.train_labels[rows])
    view = centre_view(info)
    machine = fitted(task.encoder, source, task.machine, view.size)
    loader = ImageLoader(info, source, view, machine, max_unreadable=task.max_unreadable)
    for images, index in loader.epoch(0):
        yield images, labels[index].to(task.machine.device)
    if rows is None:
        task.problems.extend(loader.problems)
