"""Whole networks, trained as in the ELEVATER protocol."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cacr.data import Source
from cacr.data.source import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.heads import MOMENTUM
from cacr.evaluation.engine.network import Network, first_images, scores_of, train_network
from cacr.evaluation.engine.probes import BATCH
from cacr.evaluation.engine.tuning import Setting
from cacr.evaluation.results.metrics import METRICS
from cacr.features.encode import ImageLoader, centre_view
from cacr.features.machine import Machine
from cacr.features.room import images_that_fit, require_learning
from cacr.randomness import generator

HELD_BYTES = 2**30
"""Largest size of images that are decoded once and kept in memory; more are decoded in every epoch."""


class NetworkLearner:
    """Whole networks, trained by SGD with momentum 0.9 and a constant rate on batches of 64, without augmentation.

    Args:
        task: The encoder and the data.
        used: The training images that may be used.
        after_epoch: Called after every epoch of training.
    """

    side_by_side = False

    def __init__(self, task: Task, used: Indices, after_epoch: Callable[[], None]) -> None:
        self._task, self._after_epoch = task, after_epoch
        self._metric = METRICS[task.data.metric]
        self._labels = torch.from_numpy(task.data.train_labels)
        size = task.encoder.info.image_size
        self._held: Tensor | None = None
        self._place = np.full(len(task.data.train), -1)
        if len(used) * 3 * size**2 * 4 <= HELD_BYTES:
            self._hold(used)

    def _hold(self, used: Indices) -> None:
        """Decode and crop images once; unreadable images have no position among them."""
        loader = self._loader(self._task.data.train.subset(used), self._task.machine.batch_size)
        batches = [(images.cpu(), index) for images, index in loader.epoch(0)]
        self._task.problems.extend(loader.problems)
        self._held = torch.cat([images for images, _ in batches])
        read = torch.cat([index for _, index in batches]).numpy()
        self._place[used[read]] = np.arange(len(read))

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        """Trains one setting after the other."""
        found = []
        for setting in settings:
            curve: list[float] = []

            def after(network: Network, curve: list[float] = curve) -> None:
                curve.append(self._metric(*scores_of(network, self._batches(judge, None, 0))))

            self._train(setting, train, epochs, seed, after)
            found.append(curve + [0.0] * (epochs - len(curve)))  # epochs after an early stop score 0
        return found

    def final(self, setting: Setting, train: Indices, epochs: int, seed: int) -> list[float]:
        """Tested only after the last epoch: a pass over the test images can take longer than an epoch."""
        network = self._train(setting, train, epochs, seed, lambda network: None)
        return [self._metric(*scores_of(network, self._test_batches()))]

    def _train(
        self, setting: Setting, train: Indices, epochs: int, seed: int, after: Callable[[Network], None]
    ) -> Network:
        task = self._task
        network = Network(task.encoder, task.data.classes, seed, task.machine.device)
        machine, size = replace(task.machine, batch_size=min(BATCH, len(train))), task.encoder.info.image_size
        require_learning(task.encoder, network, task.data.train, machine, size, states=1)
        some = first_images(train, seed)
        network.begin_at(images for images, _ in self._batches(some, None, 0))
        optimizer = torch.optim.SGD(
            network.parameters(), lr=setting.lr, momentum=MOMENTUM, weight_decay=setting.weight_decay
        )

        def ended() -> None:
            after(network)
            self._after_epoch()

        train_network(
            network,
            optimizer,
            lambda epoch: self._batches(train, seed, epoch),
            epochs=epochs,
            per_epoch=-(-len(train) // BATCH),
            after_epoch=ended,
        )
        return network

    def _batches(self, rows: Indices, seed: int | None, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of these images, in a new order in every epoch; without a seed, in the given order."""
        device = self._task.machine.device
        if self._held is None:
            shuffled = seed is not None
            loader = self._loader(
                self._task.data.train.subset(rows), min(BATCH, len(rows)), shuffle=shuffled, seed=seed or 0
            )
            for images, index in loader.epoch(epoch):
                yield images, self._labels[rows[index.numpy()]].to(device)
            return
        known = rows[self._place[rows] >= 0]
        order = torch.arange(len(known))
        if seed is not None:
            order = torch.randperm(len(known), generator=generator("shots", seed, epoch))
        for chosen in torch.split(order, BATCH):
            numbers = known[chosen.numpy()]
            images = self._held[torch.from_numpy(self._place[numbers])]
            yield images.to(device), self._labels[numbers].to(device)

    def _test_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        data, device = self._task.data, self._task.machine.device
        labels = torch.from_numpy(data.test_labels)
        size = self._task.encoder.info.image_size
        fits = images_that_fit(self._task.encoder, data.test, self._task.machine, size)
        for images, index in self._loader(data.test, fits).epoch(0):
            yield images, labels[index].to(device)

    def _loader(
        self, source: Source, batch_size: int, *, shuffle: bool = False, seed: int = 0
    ) -> ImageLoader:
        task = self._task
        machine = Machine(batch_size, task.machine.workers, task.machine.device)
        info = task.encoder.info
        return ImageLoader(
            info,
            source,
            centre_view(info),
            machine,
            shuffle=shuffle,
            keep_small=True,  # as the published protocol does
            seed=seed,
            max_unreadable=task.max_unreadable,
        )
