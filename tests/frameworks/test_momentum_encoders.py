"""The queue and the momentum encoder against hand-written loops, and their losses against written-out ones."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from cacr.frameworks import Momentum, Queue
from cacr.frameworks.framework import Facts
from cacr.frameworks.key_encoder import default_ema, ema_at
from cacr.losses import OBJECTIVES
from tests.frameworks.making import DIM, make_framework, make_views

pytestmark = pytest.mark.trains

STEPS, LR = 5, 0.5


def _train(method: Queue | Momentum, batches: list[list[Tensor]]) -> None:
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=LR)
    for step, views in enumerate(batches):
        method(views)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(step + 1, len(batches))


def _queries(method: Queue, view: Tensor) -> Tensor:
    return normalize(method.head(method.encoder(view)), dim=-1)


def _keys(copies: nn.Module, view: Tensor) -> Tensor:
    with torch.no_grad():
        return normalize(copies[1](copies[0](view)), dim=-1)


def test_p18_queue_trains_as_a_loop_that_updates_before_the_forward() -> None:
    """Algorithm of MoCo with CACR, written out; the keys are updated before the forward there."""
    batches = [make_views(2, 4, seed=seed) for seed in range(STEPS)]
    method = make_framework("queue", t_neg=3.0, ema=0.9, queue_size=12)
    assert isinstance(method, Queue) and not method.objective.pos_grad
    encoder, head = copy.deepcopy(method.encoder), copy.deepcopy(method.head)
    key_modules = nn.ModuleList([copy.deepcopy(encoder), copy.deepcopy(head)])
    queue = method.queue.clone()
    weights = [*encoder.parameters(), *head.parameters()]
    joined = 0
    for (views,) in batches:
        with torch.no_grad():
            for k, q in zip(key_modules.parameters(), weights, strict=True):
                k.copy_(0.9 * k + 0.1 * q)
        q = torch.stack([normalize(head(encoder(view)), dim=-1) for view in views])
        k = torch.stack([_keys(key_modules, view) for view in views])
        loss = torch.zeros((), dtype=torch.float64)
        for v in range(2):
            attraction = (2 - 2 * (q[v] * k[1 - v]).sum(-1)).mean()
            for i in range(4):
                known = queue[:joined] if joined else queue  # random vectors at the first step only
                others = torch.cat([known, torch.stack([q[v, j] for j in range(4) if j != i])])
                cost = 2 - 2 * others @ q[v, i]
                loss = loss - (torch.softmax(-3.0 * cost, 0) * cost).sum() / 8
            loss = loss + attraction / 2
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= LR * gradient
        for key in k[-1]:
            queue[joined % 12] = key
            joined += 1
    _train(method, batches)
    expected = [*encoder.parameters(), *head.parameters()]
    actual = [*method.encoder.parameters(), *method.head.parameters()]
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(method.queue, queue, rtol=1e-9, atol=1e-9)
    assert int(method.enqueued) == STEPS * 4 == joined > 12
    # the loop would update the keys once more before the next forward
    for k, q in zip(key_modules.parameters(), weights, strict=True):
        k.data = 0.9 * k + 0.1 * q
    torch.testing.assert_close(
        [*method.key_encoder.parameters()], [*key_modules.parameters()], rtol=1e-9, atol=1e-9
    )


def test_the_queue_holds_unit_vectors_of_earlier_batches_only() -> None:
    method = make_framework("queue", queue_size=12)
    assert isinstance(method, Queue)
    views = make_views(3, 5, local=2)
    before = method.queue.clone()
    method(views)
    assert torch.equal(method.queue, before) and int(method.enqueued) == 0
    last = _keys(method.key_encoder.copies, views[0][2])
    method.after_step(1, 2)
    torch.testing.assert_close(method.queue[:5], last)
    assert torch.equal(method.queue[5:], before[5:])
    for step in range(2, 4):  # the third batch of 5 is cut by the end of the ring: it goes round
        method(views)
        last = _keys(method.key_encoder.copies, views[0][2])
        method.after_step(step, 4)
    assert int(method.enqueued) == 15
    torch.testing.assert_close(method.queue[[10, 11, 0, 1, 2]], last)
    torch.testing.assert_close(method.queue.norm(dim=1), torch.ones(12, dtype=torch.float64))


def test_accumulated_batches_all_join_the_queue() -> None:
    method = make_framework("queue", queue_size=12)
    assert isinstance(method, Queue)
    for seed in range(2):
        method(make_views(2, 4, seed=seed))
    method.after_step(1, 1)
    assert int(method.enqueued) == 8
    method.after_step(2, 2)
    assert int(method.enqueued) == 8


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_queue_is_full_after_the_steps_that_are_announced(accumulate: int) -> None:
    method, steps = make_framework("queue", queue_size=40), 0
    assert isinstance(method, Queue)
    while int(method.enqueued) < 40:
        for seed in range(accumulate):
            method(make_views(2, 4, seed=seed))
        steps += 1
        method.after_step(steps, 10)
    text = method.negatives_text(4, 2, accumulate=accumulate)
    assert (
        text
        == f"43 per query: the queue (full after {steps} steps), and the other images in the batch, same view"
    )


def test_a_queue_of_the_other_images_equals_in_batch_negatives() -> None:
    """P15: one query image whose negatives lie in the queue, instead of in the batch."""
    whole = make_framework("in_batch", t_neg=2.0)
    views = make_views(2, 5)
    z = normalize(whole.embed(views), dim=-1)
    parts = whole.loss(z, None)
    repulsion = 0.0
    for v in range(2):
        for i in range(5):
            alone = make_framework("queue", t_neg=2.0, queue_size=4, in_batch="off")
            alone.queue.copy_(torch.cat([z[v, :i], z[v, i + 1 :]]))
            found = alone.loss(z[v : v + 1, i : i + 1].repeat(2, 1, 1), z[:, i : i + 1].detach())
            repulsion += found["repulsion"].item() / 10
    assert repulsion == pytest.approx(parts["repulsion"].item(), abs=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_moco_v2_is_a_choice_of_settings(temperature: float) -> None:
    """One direction, queue alone, InfoNCE: the cross-entropy of MoCo's own code."""
    options = {"symmetric": False, "in_batch": "off", "temperature": temperature}
    method = make_framework("queue", "info_nce", **options)
    assert isinstance(method, Queue)
    (views,) = make_views(2, 6)
    q, k = _queries(method, views[0]), _keys(method.key_encoder.copies, views[1])
    logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ method.queue.T], 1) / temperature
    expected = cross_entropy(logits, torch.zeros(6, dtype=torch.long))
    torch.testing.assert_close(method([views])["loss"], expected)
    symmetric = make_framework("queue", "info_nce", **options | {"symmetric": True})
    swapped = make_framework("queue", "info_nce", **options)
    both = (method([views])["loss"] + swapped([views.flip(0)])["loss"]) / 2
    torch.testing.assert_close(symmetric([views])["loss"], both)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_the_released_loss_with_two_crops_is_half_of_moco_v3(temperature: float) -> None:
    """P11, through the framework: MoCo v3's own code has 2 T (CE(q1, k2) + CE(q2, k1))."""
    method = make_framework("momentum", "released_moco_v3", temperature=temperature)
    (views,) = make_views(2, 6)
    q, k = normalize(method.embed([views]), dim=-1), normalize(method.targets([views]), dim=-1)
    labels = torch.arange(6)
    own = sum(
        2 * temperature * cross_entropy(q[a] @ k[b].T / temperature, labels) for a, b in ((0, 1), (1, 0))
    )
    torch.testing.assert_close(method([views])["loss"], own / 2)
    conventional = make_framework("momentum", "info_nce", temperature=temperature)
    torch.testing.assert_close(conventional([views])["loss"], own / (4 * temperature))


@pytest.mark.parametrize("framework", ["queue", "momentum"])
def test_local_crops_are_queries_and_global_crops_are_keys(framework: str) -> None:
    method = make_framework(framework, t_neg=2.0)
    views = make_views(2, 4, local=3)
    assert method.embed(views).shape == (5, 4, DIM)
    keys = method.targets(views)
    assert keys is not None and keys.shape == (2, 4, DIM) and not keys.requires_grad
    q, k = normalize(method.embed(views), dim=-1), normalize(keys, dim=-1)
    # pi+ of a local crop is over both global crops, of a global crop over the other one
    attraction = 0.0
    for v in range(5):
        for i in range(4):
            cost = torch.stack([2 - 2 * q[v, i] @ k[w, i] for w in range(2) if w != v])
            attraction += (torch.softmax(cost, 0) * cost).sum().item() / 20
    assert method(views)["attraction"].item() == pytest.approx(attraction, abs=1e-12)


@pytest.mark.parametrize("framework", ["queue", "momentum"])
def test_keys_receive_no_gradient(framework: str) -> None:
    method = make_framework(framework)
    method(make_views(2, 4))["loss"].backward()
    trained = {name for name, p in method.named_parameters() if p.grad is not None}
    assert trained == {name for name, _ in method.named_parameters() if not name.startswith("key_encoder")}


def test_the_momentum_ramps_up_by_half_a_cosine() -> None:
    assert [ema_at(0.99, "constant", step, 10) for step in (0, 10)] == [0.99, 0.99]
    for step in range(11):
        expected = 1 - (1 - 0.9) * (math.cos(math.pi * step / 10) + 1) / 2
        assert ema_at(0.9, "cosine", step, 10) == pytest.approx(expected)
    assert default_ema(0.999, 1_000_000) == 0.999
    assert default_ema(0.999, 200) == pytest.approx(0.9)
    assert default_ema(0.999, 5) == 0


def test_keys_move_more_slowly_where_older_ones_are_the_negatives() -> None:
    facts = Facts(images=20_000, batch_size=128, steps=781, transformer=False)
    queue, momentum = (kind.default_options(facts)["ema"] for kind in (Queue, Momentum))
    assert queue == pytest.approx(1 - 4 / 781, abs=1e-4)
    assert queue > momentum
    assert Queue.default_options(facts._replace(steps=100_000))["ema"] == 0.999


def test_refusals_name_what_is_missing() -> None:
    assert "predictor" in (Queue.refusal(OBJECTIVES["byol"]()) or "")
    assert "cross-view negatives" in (Queue.refusal(OBJECTIVES["released_moco_v3"]()) or "")
    assert "not pairs" in (Momentum.refusal(OBJECTIVES["barlow_twins"]()) or "")
    assert Momentum.refusal(OBJECTIVES["cacr"](negatives="same")) is None
    assert "local crops" in (Momentum.refusal(OBJECTIVES["cacr"](negatives="same"), local=True) or "")
    for name in ("cacr", "info_nce", "cmc", "align_uniform", "hard_negative", "triplet"):
        assert Queue.refusal(OBJECTIVES[name](), local=True) is None
