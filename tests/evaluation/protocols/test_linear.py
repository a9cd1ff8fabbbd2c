import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from cacr.evaluation.engine.scaling import Scaling
from cacr.evaluation.protocols import linear
from cacr.evaluation.protocols.linear import LinearSettings, fit_linear, train_heads, unit_scaling

pytestmark = pytest.mark.trains


def data(count: int, dim: int, *, noise: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(3, dim, generator=torch.Generator().manual_seed(9))
    labels = torch.arange(count) % 3
    features = centres[labels] + noise * torch.randn(count, dim, generator=generator)
    scale = torch.logspace(-3, 1, dim)  # features of very different sizes
    return features * scale + 5, labels


@pytest.mark.parametrize(("count", "dim"), [(300, 8), (30, 60)])
def test_it_reaches_the_optimum_of_scikit_learn(count: int, dim: int) -> None:
    features, labels = data(count, dim, noise=2.0)
    test, _ = data(200, dim, noise=2.0, seed=1)
    decay = 0.01
    settings = LinearSettings(lrs=(10.0,), epochs=600, weight_decay=decay)
    classifier = fit_linear(features.double(), labels, classes=3, settings=settings, seed=0)
    scaled = classifier.scaling(features.double())
    oracle = LogisticRegression(C=1 / (decay * count), tol=1e-10, max_iter=10_000).fit(scaled, labels)
    expected = oracle.predict_proba(classifier.scaling(test.double()))
    actual = classifier.logits(test.double()).softmax(dim=1)
    assert np.abs(actual.numpy() - expected).max() < 0.002


def test_mini_batches_come_close_to_the_optimum_of_scikit_learn() -> None:
    features, labels = data(2000, 8, noise=2.0)
    settings = LinearSettings(weight_decay=0.001)
    classifier = fit_linear(features, labels, classes=3, settings=settings, seed=0)
    oracle = LogisticRegression(C=1 / (0.001 * 2000), max_iter=10_000)
    oracle.fit(classifier.scaling(features), labels)
    test, _ = data(1000, 8, noise=2.0, seed=1)
    expected = oracle.predict_proba(classifier.scaling(test))
    assert np.abs(classifier.logits(test).softmax(dim=1).numpy() - expected).max() < 0.05


def test_scaled_features_are_standardised_and_of_mean_square_norm_one() -> None:
    features, _ = data(300, 8)
    scaled = unit_scaling(features)(features)
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(8), atol=1e-4, rtol=0)
    assert scaled.square().sum(dim=1).mean().item() == pytest.approx(1, rel=1e-3)
    loud = features[:, -1]
    assert torch.corrcoef(torch.stack([scaled[:, -1], loud]))[0, 1].item() == pytest.approx(1, abs=1e-4)


def test_features_of_any_scale_give_the_same_predictions() -> None:
    features, labels = data(60, 8)
    test, _ = data(60, 8, seed=1)
    settings = LinearSettings()
    plain = fit_linear(features, labels, classes=3, settings=settings, seed=0).predict(test)
    tiny = fit_linear(features * 1e-6, labels, classes=3, settings=settings, seed=0).predict(test * 1e-6)
    assert plain.tolist() == tiny.tolist()


def test_constant_features_are_no_trouble() -> None:
    classifier = fit_linear(
        torch.ones(12, 4), torch.arange(12) % 3, classes=3, settings=LinearSettings(), seed=0
    )
    assert classifier.logits(torch.ones(2, 4)).isfinite().all()


def test_the_basis_of_few_features_changes_nothing() -> None:
    features, labels = (part[:20] for part in data(20, 50))
    test, _ = data(40, 50, seed=1)
    settings = LinearSettings(lrs=(3.0,), epochs=40, min_steps=40)
    short = fit_linear(features.double(), labels, classes=3, settings=settings, seed=0)
    assert short.scaling.basis is not None and short.weight.shape == (20, 3)
    whole = Scaling(short.scaling.mean, short.scaling.scale, None)
    used = torch.ones(1, 20, dtype=torch.bool)
    weight, bias = train_heads(whole(features.double()), labels, used, [3.0], 3, settings, 0)
    expected = whole(test.double()) @ weight[:, 0] + bias[0]
    torch.testing.assert_close(short.logits(test.double()), expected, atol=1e-8, rtol=1e-6)


def test_heads_trained_at_once_are_those_trained_alone() -> None:
    features, labels = data(50, 6)
    features = unit_scaling(features)(features).double()
    settings = LinearSettings(epochs=5, min_steps=1, batch_size=20, weight_decay=0.1)
    used = torch.rand(3, 50, generator=torch.Generator().manual_seed(0)) > 0.3
    together = train_heads(features, labels, used, [0.1, 1.0, 5.0], 3, settings, 0)
    for head, lr in enumerate([0.1, 1.0, 5.0]):
        alone = train_heads(features, labels, used[head : head + 1], [lr], 3, settings, 0)
        torch.testing.assert_close(together[0][:, head], alone[0][:, 0])
        torch.testing.assert_close(together[1][head], alone[1][0])


def test_labels_of_the_validation_fold_are_not_learned_from() -> None:
    features, labels = data(40, 6)
    features = unit_scaling(features)(features)
    used = torch.ones(1, 40, dtype=torch.bool)
    used[:, :10] = False
    changed = labels.clone()
    changed[:10] = 0
    settings = LinearSettings(epochs=5, min_steps=1)
    first = train_heads(features, labels, used, [1.0], 3, settings, 0)
    assert torch.equal(first[0], train_heads(features, changed, used, [1.0], 3, settings, 0)[0])


@pytest.mark.parametrize(("count", "expected"), [(100, 5), (1500, 2), (5000, 1)])
def test_folds_are_added_until_enough_labels_judge(count: int, expected: int) -> None:
    judges = linear._judges(torch.arange(count) % 10, 0.2, 0)
    assert judges.shape == (expected, count)
    assert judges.sum(dim=0).max() == 1
    assert judges.sum() >= min(500, count)


def test_the_chosen_rate_has_the_lowest_validation_loss() -> None:
    settings = LinearSettings(lrs=(30.0, 0.001, 1.0))
    easy = fit_linear(*data(90, 6, noise=0.1), classes=3, settings=settings, seed=0)
    assert list(easy.validation) == [0.001, 1.0, 30.0]
    assert easy.lr == 30.0  # the classes are far apart: the surer, the better
    features, labels = data(90, 6)
    mixed = labels[torch.randperm(90, generator=torch.Generator().manual_seed(0))]
    hopeless = fit_linear(features, mixed, classes=3, settings=settings, seed=0)
    assert hopeless.lr == 0.001  # there is nothing to learn: the less sure, the better
