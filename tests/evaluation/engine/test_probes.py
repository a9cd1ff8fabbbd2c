"""Classifiers trained side by side against a module trained alone."""

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from cacr.evaluation.engine.probes import train_probes
from cacr.evaluation.engine.tuning import Setting
from cacr.randomness import generator, mixed_seed

pytestmark = pytest.mark.trains

SETTINGS = [Setting(0.1, 0.0), Setting(0.01, 0.1), Setting(0.1, 1e6), Setting(1e-4, 10.0)]


def _alone(
    features: torch.Tensor, labels: torch.Tensor, rows: torch.Tensor, setting: Setting, test: torch.Tensor
) -> list[torch.Tensor]:
    """The protocol with PyTorch's own modules; scores of ``test`` after each of three epochs."""
    torch.manual_seed(mixed_seed("head", 7))
    network = nn.Linear(features.shape[1], 3).double()
    mean, variance = features[rows].mean(dim=0), features[rows].var(dim=0, correction=0)
    scale = (variance + 1e-5 * variance.mean()).sqrt()
    features, test = (features - mean) / scale, (test - mean) / scale
    optimizer = torch.optim.SGD(
        network.parameters(), lr=setting.lr, momentum=0.9, weight_decay=setting.weight_decay
    )
    curve = []
    for epoch in range(3):
        order = rows[torch.randperm(len(rows), generator=generator("shots", 7, epoch))]
        for chosen in order.split(64):
            logits = network(features[chosen])
            if labels.ndim == 1:
                loss = cross_entropy(logits, labels[chosen])
            else:
                loss = binary_cross_entropy_with_logits(logits, labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curve.append(network(test).detach())
    return curve


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("count", "dim"), [(150, 6), (70, 90)])  # the second: more dimensions than features
def test_each_classifier_is_trained_as_if_alone(several: bool, count: int, dim: int) -> None:
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(200, dim, dtype=torch.double, generator=draws) * torch.arange(1, dim + 1) + 3
    labels = torch.randint(0, 3, (200,), generator=draws)
    if several:
        labels = (torch.rand(200, 3, generator=draws) < 0.4).double()
    rows = torch.randperm(200, generator=draws)[:count]
    test = features[:10]
    found: list[torch.Tensor] = []

    train_probes(
        features, labels, rows, test, SETTINGS, classes=3, epochs=3, seed=7, after_epoch=found.append
    )
    for number, setting in enumerate(SETTINGS):
        expected = _alone(features, labels, rows, setting, test)
        for epoch in range(3):
            torch.testing.assert_close(found[epoch][:, number], expected[epoch])
    assert not torch.allclose(found[0], found[2])


def test_the_scale_of_the_features_does_not_matter() -> None:
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(40, 5, generator=draws)
    labels, rows = torch.arange(40) % 3, torch.arange(40)
    found: list[torch.Tensor] = []
    for factor in (1.0, 1e-4):
        train_probes(
            factor * features,
            labels,
            rows,
            factor * features,
            SETTINGS[:2],
            classes=3,
            epochs=4,
            seed=0,
            after_epoch=found.append,
        )
    torch.testing.assert_close(found[3], found[7], rtol=1e-3, atol=1e-4)
