"""The siamese and prototypes frameworks against plain formulas, and what local crops are in every framework."""

import copy

import pytest
import torch
from torch.nn.functional import cosine_similarity, normalize

from cacr.diagnostics.embedding import measured_views
from cacr.frameworks import FRAMEWORKS, Facts, Prototypes, Siamese
from cacr.losses import Scores
from cacr.training.building.build import make_views_of
from cacr.training.cost.passes import view_sizes
from cacr.training.optimization.optimizers import build_optimizer
from cacr.training.settings.check import check_settings
from cacr.training.settings.described import Described
from cacr.training.settings.layers import with_recipe
from cacr.training.settings.resolve import keyed_views, resolve
from cacr.views import PRESETS
from tests.frameworks.making import make_framework, make_views

pytestmark = pytest.mark.trains


def test_simsiam_has_the_gradient_of_its_formula() -> None:
    method = make_framework("siamese", "simsiam", norm=True).train()
    assert isinstance(method, Siamese)
    other = copy.deepcopy(method)
    (views,) = made = make_views(2, 6)
    method(made)["loss"].backward()
    z = [other.head(other.encoder(view)) for view in views]
    p = [other.predictor(each) for each in z]
    loss = -(cosine_similarity(p[0], z[1].detach()) + cosine_similarity(p[1], z[0].detach())).mean() / 2
    loss.backward()
    for (name, ours), theirs in zip(method.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=lambda text, name=name: f"{name}: {text}")


def test_simsiam_encodes_every_view_once_and_holds_no_copy() -> None:
    method = make_framework("siamese", "simsiam")
    seen = []
    method.encoder.register_forward_hook(lambda module, given, found: seen.append(len(given[0])))
    method(make_views(3, 4))
    assert seen == [12]
    assert all(p.requires_grad for p in method.parameters())


def test_the_predictors_rate_stays_while_the_others_fall() -> None:
    values = {
        "data": "x",
        "method": "simsiam",
        "width": 0.05,
        "epochs": 1,
        "bias_base_lr": 0.01,
        "batch_size": 64,
    }
    data = Described("x", 640, 32, in_memory=True)
    settings = resolve(check_settings(with_recipe(values)), data, world_size=1, device=torch.device("cpu"))
    method = make_framework("siamese", "simsiam", norm=True)
    optimizer = build_optimizer(settings, method)
    constant = {id(p) for group in optimizer.param_groups if not group["scheduled"] for p in group["params"]}
    assert constant == {id(p) for p in method.predictor.parameters()}
    factors = {p.ndim: group["factor"] for group in optimizer.param_groups for p in group["params"]}
    assert factors[2] == 1.0 and factors[1] == pytest.approx(0.01 * 64 / 256 / settings.lr)
    plain = make_framework("siamese", "simsiam", constant_predictor=False)
    assert plain.constant_rate() == []


def test_prototypes_keep_unit_length_and_stay_where_they_are_while_frozen() -> None:
    method = make_framework("prototypes", "swav", frozen_steps=2)
    assert isinstance(method, Prototypes)
    optimizer = torch.optim.SGD(method.parameters(), lr=5.0, momentum=0.9, weight_decay=0.1)
    places = [method.prototypes.detach().clone()]
    for step in range(4):
        method.before_step(step, 10, 0)
        method(make_views(2, 6, seed=step))["loss"].backward()
        method.hold_gradients()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(step + 1, 10)
        places.append(method.prototypes.detach().clone())
    assert torch.equal(places[0], places[2]) and not torch.equal(places[2], places[3])
    torch.testing.assert_close(places[-1].norm(dim=1), torch.ones(6, dtype=torch.float64))


def test_the_queue_of_prototypes_is_used_from_its_epoch_on() -> None:
    """Each loss against the objective on scores written out: without the queue, and with it."""
    method = make_framework("prototypes", "swav", queue_size=8, queue_from_epoch=2).train()
    assert isinstance(method, Prototypes)
    for epoch in range(4):
        views = make_views(2, 5, seed=epoch)
        z = torch.stack([normalize(method.head(method.encoder(view)), dim=-1) for view in views[0]])
        queue = method.queue[:, : min(8, int(method.enqueued))].clone()
        earlier = queue @ method.prototypes.T if epoch >= 2 else None
        expected = method.objective(Scores(z @ method.prototypes.T, 2, earlier))
        method.before_step(epoch, 10, epoch)
        torch.testing.assert_close(method(views)["loss"], expected)
        method.after_step(epoch + 1, 10)
        places = [(5 * epoch + n) % 8 for n in range(5)]
        torch.testing.assert_close(method.queue[:, places], z.detach())
    assert {"queue", "enqueued", "prototypes"} <= set(method.state_dict())


def test_a_queue_of_prototypes_is_asked_for_and_starts_earlier_in_a_shorter_run() -> None:
    long = Facts(images=20_000, batch_size=128, steps=100_000, transformer=False, epochs=640)
    for epochs, first in ((640, 15), (100, 8), (5, 1)):
        options = Prototypes.default_options(long._replace(epochs=epochs))
        assert (options["queue_size"], options["queue_from_epoch"]) == (0, first)


def test_local_crops_are_predicted_from_but_assign_nothing() -> None:
    method = make_framework("prototypes", "swav", queue_size=0)
    views = make_views(2, 5, local=2)
    z = [normalize(method.head(method.encoder(view)), dim=-1) for size in views for view in size]
    expected = method.objective(Scores(torch.stack(z) @ method.prototypes.T, 2))
    torch.testing.assert_close(method(views)["loss"], expected)


@pytest.mark.parametrize(
    "framework", [name for name in FRAMEWORKS if name not in ("prototypes", "image_text")]
)
def test_local_keys_are_as_many_keys_more(framework: str) -> None:
    """Local crops of the size of global ones: with keys of their own they are views like the others."""
    unused = FRAMEWORKS[framework].meaningless_options
    options = {"negatives": "cross"} if "negatives" not in unused else {}
    options |= {"in_batch": "off"} if framework == "queue" else {}
    (views,) = make_views(4, 5)
    split = [views[:2], views[2:]]
    losses = {
        local_keys: make_framework(framework, local_keys=local_keys, **options)(split)["loss"]
        for local_keys in (False, True)
    }
    whole = make_framework(framework, **options)([views])["loss"]
    torch.testing.assert_close(losses[True], whole)
    assert not torch.isclose(losses[False], whole)


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "image_text"])
def test_local_crops_that_are_as_large_as_global_ones_have_no_keys(framework: str) -> None:
    """From the settings of a run to what is announced, estimated, measured and compared."""
    chosen = {"preset": "multicrop-swav", "image_size": 32, "local_size": 32, "encoder": "small_alexnet"}
    chosen |= {"framework": framework, "objective": "swav" if framework == "prototypes" else "cacr"}
    settings = resolve(
        check_settings({"data": "x", "batch_size": 4, "epochs": 1, **chosen}),
        Described("x", 640, 32, in_memory=True),
        world_size=1,
        device=torch.device("cpu"),
    )
    views = make_views_of(settings)
    assert keyed_views(settings) == 2 and view_sizes(settings) == [(32, 2), (32, 6)]
    assert set(measured_views(views)) == set(PRESETS["multicrop-swav"].resized(32).views)
    images = torch.randint(256, (4, 3, 40, 40), dtype=torch.uint8)
    made = [x.double() for x in views(images, torch.Generator().manual_seed(0))]
    options = settings.objective_options if framework != "prototypes" else {}
    method = make_framework(framework, settings.objective, **options)
    queries, targets = method.embed(made), method.targets(made)
    assert targets is None or len(targets) == 2
    expected = method.loss(queries, targets, global_views=2)["loss"]
    torch.testing.assert_close(method(made)["loss"], expected)
