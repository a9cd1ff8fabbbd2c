"""The linear probe of the paper's small-scale experiments."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cacr.config import PaperLinearSettings
from cacr.evaluation.features import FeatureLoader, usual_flip
from cacr.evaluation.machine import Machine
from cacr.evaluation.protocols import accuracy
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.task import Task
from cacr.views import probe_train

MILESTONES, GAMMA = (0.6, 0.8), 0.2
"""The rate drops by a factor of 0.2 after 60 and 80 of 100 epochs."""


@PROTOCOLS.register("linear-paper")
def linear_paper(task: Task, settings: PaperLinearSettings) -> Score:
    """The paper's probe: features of fresh random crops in every epoch; the last epoch is the score.

    Adam with betas 0.5 and 0.999. The best epoch on the test images stands beside the score, as ``best``: it
    is chosen on the test images and is no fair estimate.
    """
    info, device = task.encoder.info, task.machine.device
    flip = usual_flip(info) if settings.flip == "auto" else settings.flip
    view = probe_train(info.image_size, info.mean, info.std, flip=flip).views[0]
    batch = min(settings.batch_size, len(task.data.train))
    machine = Machine(batch, task.machine.workers, device)
    crops = FeatureLoader(task.encoder, task.data.train, view, machine, shuffle=True, seed=task.seed)
    labels = torch.as_tensor(task.data.train.labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        classifier = nn.Linear(info.feature_dim, task.data.classes)
    classifier.to(device)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=settings.lr, betas=(0.5, 0.999), eps=1e-8)
    drops = [round(share * settings.epochs) for share in MILESTONES]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, drops, GAMMA)
    curve = []
    for epoch in range(settings.epochs):
        for features, index in crops.epoch(epoch):
            # Tensors made in inference mode cannot be saved for the backward pass; a copy can.
            loss = cross_entropy(classifier(features.clone()), labels[index].to(device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            curve.append(accuracy(classifier(task.test.values).argmax(dim=1), task.test.labels))
        if task.progress is not None:
            task.progress(epoch + 1, settings.epochs)
    best = max(range(len(curve)), key=curve.__getitem__)
    return Score(curve[-1], None, {"best": curve[best], "best_epoch": best + 1, "epochs": curve})
