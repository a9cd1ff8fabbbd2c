"""The linear probe of the paper's small-scale experiments."""

import torch

from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.streamed import streamed_probe
from cacr.evaluation.options import PaperLinearSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.features.encode import usual_flip
from cacr.views import probe_train

MILESTONES, GAMMA = (0.6, 0.8), 0.2
"""The rate drops by a factor of 0.2 after 60 and 80 of 100 epochs."""


@PROTOCOLS.register("linear-paper")
def linear_paper(task: Task, settings: PaperLinearSettings) -> Score:
    """The paper's probe: features of fresh random crops in every epoch; the last epoch is the score.

    Adam with betas 0.5 and 0.999.
    """
    info = task.encoder.info
    flip = usual_flip(info) if settings.flip == "auto" else settings.flip
    return streamed_probe(
        task,
        probe_train(info.image_size, info.mean, info.std, flip=flip).views[0],
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=lambda layer: torch.optim.Adam(
            layer.parameters(), lr=settings.lr, betas=(0.5, 0.999), eps=1e-8
        ),
        rate=lambda epoch: dropped(epoch, settings.epochs, MILESTONES, GAMMA),
    )


def dropped(epoch: int, epochs: int, milestones: tuple[float, ...], gamma: float) -> float:
    """Factor on the learning rate after those of the milestones, as shares of the run, that are past."""
    return float(gamma ** sum(epoch >= round(share * epochs) for share in milestones))
