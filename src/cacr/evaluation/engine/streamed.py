"""Linear probes on features of new random views, which are used once: no features are stored."""

import copy
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cacr.encoders import Encoder
from cacr.evaluation.data.task import Task
from cacr.evaluation.registry import Score
from cacr.evaluation.results.metrics import METRICS, Metric
from cacr.features.encode import FeatureLoader, as_trained
from cacr.features.machine import Machine
from cacr.features.room import require_batch
from cacr.training.optimization.schedules import Schedule
from cacr.views import Augmentation

TEST_BLOCK = 16_384
"""Number of test features per batch."""


def streamed_probe(
    task: Task,
    view: Augmentation,
    *,
    epochs: int,
    batch_size: int,
    optimizer: Callable[[nn.Linear], torch.optim.Optimizer],
    rate: Schedule,
    protocol: str,
    first: Callable[[nn.Linear], None] = lambda layer: None,
    drift: bool = False,
) -> Score:
    """Train a linear layer on frozen features; the score is that of the last epoch.

    The best epoch on the test images is also returned, as ``best``. It is chosen on the test images, so it is not a
    fair estimate.

    Args:
        task: The encoder and the data.
        view: Augmentation of a training image.
        epochs: Passes over the training images.
        batch_size: Images per step.
        optimizer: Makes the optimiser, with the peak learning rate.
        rate: Factor on the learning rate, by the number of the epoch (0, 1, ...).
        protocol: Protocol that has the setting ``batch_size``.
        first: Sets the initial weights of the layer.
        drift: Let the encoder's batch norm update its statistics, on a copy: as in HCL's code.
    """
    device = task.machine.device
    encoder = _drifting(task.encoder) if drift else task.encoder
    machine = Machine(min(batch_size, len(task.data.train)), task.machine.workers, device)
    require_batch(encoder, task.data.train, machine, view.size, f"{protocol}.batch_size")
    crops = FeatureLoader(
        encoder,
        task.data.train,
        view,
        machine,
        shuffle=True,
        seed=task.seed,
        max_unreadable=task.max_unreadable,
        training=drift,
    )
    labels = torch.from_numpy(task.data.train_labels)
    classifier = _untrained(task, first)
    stepper = optimizer(classifier)
    highest = [group["lr"] for group in stepper.param_groups]
    curve = []
    for epoch in range(epochs):
        for group, lr in zip(stepper.param_groups, highest, strict=True):
            group["lr"] = lr * rate(epoch)
        for features, index in crops.epoch(epoch):
            # Tensors from inference mode cannot be saved for the backward pass; a copy can.
            loss = cross_entropy(classifier(features.clone()), labels[index].to(device))
            stepper.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            stepper.step()
        test = Task(encoder, task.data, machine=task.machine).test if drift else task.test
        curve.append(_judge(classifier, test.values, test.labels, METRICS[task.data.metric]))
        if task.progress is not None:
            task.progress(epoch + 1, epochs)
    best = max(range(len(curve)), key=curve.__getitem__)
    details = {"best": curve[best], "best_epoch": best + 1, "epochs": curve}
    return Score(curve[-1], None, details, task.data.metric)


@torch.no_grad()
def _judge(classifier: nn.Linear, values: torch.Tensor, labels: torch.Tensor, metric: Metric) -> float:
    device = classifier.weight.device
    scores = torch.cat([classifier(block.to(device)) for block in torch.split(values, TEST_BLOCK)])
    return metric(scores, labels.to(device))


def _untrained(task: Task, first: Callable[[nn.Linear], None]) -> nn.Linear:
    """A linear layer with the initial weights of the task's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        classifier = nn.Linear(task.encoder.info.feature_dim, task.data.classes)
        first(classifier)
    return classifier.to(task.machine.device)


def _drifting(encoder: Encoder) -> Encoder:
    """A copy, so that the given encoder does not change."""
    return Encoder(copy.deepcopy(encoder.backbone), encoder.info)


def plain_crop(task: Task) -> Augmentation:
    """Random resized crop of 8 to 100 % of the area, flipped and rotated as in pretraining; colours are not changed."""
    info = task.encoder.info
    return as_trained(Augmentation(info.image_size, scale=(0.08, 1.0)), info)


def small_weights(layer: nn.Linear) -> None:
    """Weights from N(0, 0.01), biases 0."""
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
