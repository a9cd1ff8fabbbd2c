"""The two reductions: all backends against plain NumPy and against one another, in value and gradient."""

import numpy as np
import pytest
import torch

from cacr.losses.engine.masks import Mask
from cacr.losses.engine.pairs import unit
from cacr.losses.engine.reductions import Keys, log_mean_exp, lse, mean, reduce
from tests.losses.making import embeddings, value_and_gradient

SCALES = [4.0, -2.0, 0.0, 50.0]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (3, 4))


def numpy_reduction(queries, keys, scale, hidden=None):
    s = np.einsum("...rd,...kd->...rk", queries, keys)
    logits = scale * s
    if hidden is not None:
        logits = np.where(hidden, -np.inf, logits)
    top = logits.max(-1, keepdims=True)
    exps = np.exp(logits - top)
    total = exps.sum(-1)
    return np.log(total) + top[..., 0], (exps * s).sum(-1) / total


def image_mask(rows, keys, images):
    return np.arange(rows)[:, None] % images == np.arange(keys)[None] % images


@pytest.mark.parametrize("backend", ["dense", "chunked"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("rows", "keys", "images"), [(7, 7, 7), (5, 10, 5), (10, 5, 5), (4, 9, 0), (12, 12, 4)]
)
def test_values_with_and_without_mask(backend, scale, rows, keys, images):
    q, k = embeddings(2, rows, 3), embeddings(2, keys, 3, seed=1)
    hidden = image_mask(rows, keys, images) if images else None
    expected_lse, expected_mean = numpy_reduction(q.numpy(), k.numpy(), scale, hidden)
    found = reduce(q, [Keys(k, Mask(images) if images else None)], scale, backend=backend)
    np.testing.assert_allclose(found.lse().numpy(), expected_lse, atol=1e-10)
    np.testing.assert_allclose(found.mean().numpy(), expected_mean, atol=1e-10)


@pytest.mark.parametrize("images", [1, 2, 3, 5, 13])
def test_a_mask_is_the_same_whole_and_in_blocks(images):
    mask = Mask(images)
    whole = mask.hidden(torch.empty(13, 17))
    np.testing.assert_array_equal(whole.numpy(), image_mask(13, 17, images))
    for r in range(0, 13, 3):
        for c in range(0, 17, 4):
            block = torch.zeros(min(3, 13 - r), min(4, 17 - c), dtype=torch.bool)
            mask.hide_(block, True, slice(r, r + 3), slice(c, c + 4))
            assert torch.equal(block, whole[r : r + 3, c : c + 4])


def test_labels_and_dropped_keys_are_hidden_too():
    labels = torch.tensor([0, 1, 1, 2]), torch.tensor([1, 0, 2, 2, 5])
    dropped = torch.tensor([[4, -1], [-1, -1], [2, 3], [-1, 0]])
    mask = Mask(labels=labels, dropped=dropped)
    hidden = labels[0][:, None] == labels[1]
    for row, places in enumerate(dropped.tolist()):
        for place in places:
            if place >= 0:
                hidden[row, place] = True
    assert torch.equal(mask.hidden(torch.empty(4, 5)), hidden)
    q, k = embeddings(1, 4, 3)[0], embeddings(1, 5, 3, seed=1)[0]
    expected, _ = numpy_reduction(q.numpy(), k.numpy(), 3.0, hidden.numpy())
    for backend in ("dense", "chunked"):
        np.testing.assert_allclose(
            lse(q, [Keys(k, mask)], 3.0, backend=backend).numpy(), expected, atol=1e-10
        )
    assert mask.visible(5).tolist() == [4, 4, 4, 3]


@pytest.mark.parametrize("weight_grad", [True, False])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["lse", "mean"])
def test_gradients_of_backends_agree(weight_grad, scale, kind):
    q, k = unit(embeddings(2, 7, 3)), unit(embeddings(2, 7, 3, seed=1))
    upstream = embeddings(1, 2, 7, seed=2)[0]

    def run(backend):
        def total(q, k):
            keys = [Keys(k, Mask(7))]
            if kind == "lse":
                return (upstream * lse(q, keys, scale, backend=backend)).sum()
            return (upstream * mean(q, keys, scale, weight_grad=weight_grad, backend=backend)).sum()

        return value_and_gradient(total, q, k)

    (dense, dense_grads), (chunked, chunked_grads) = run("dense"), run("chunked")
    torch.testing.assert_close(dense, chunked, atol=1e-10, rtol=0)
    torch.testing.assert_close(dense_grads, chunked_grads, atol=1e-10, rtol=0)


def leading(shape, seed):
    return unit(embeddings(1, int(np.prod(shape[:-1])), shape[-1], seed=seed)).reshape(shape)


@pytest.mark.parametrize("key_shape", [(2, 3, 9, 4), (9, 4)])
def test_leading_dimensions(key_shape):
    q, k = leading((2, 3, 5, 4), 0), leading(key_shape, 1)
    _, expected = numpy_reduction(q.numpy(), k.numpy(), 3.0)
    for backend in ("dense", "chunked", "attention"):
        found = mean(q, k, 3.0, backend=backend)
        assert found.shape == (2, 3, 5)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("scale", SCALES)
def test_attention_agrees_in_value_and_gradient(scale):
    q, k = unit(embeddings(2, 7, 8)), unit(embeddings(2, 11, 8, seed=1))
    reference = value_and_gradient(lambda q, k: mean(q, k, scale, backend="dense").square().sum(), q, k)
    attention = value_and_gradient(lambda q, k: mean(q, k, scale, backend="attention").square().sum(), q, k)
    torch.testing.assert_close(attention, reference, atol=1e-10, rtol=0)


def test_attention_refuses_what_it_cannot_do():
    q = unit(embeddings(1, 4, 3))
    for use in (
        lambda: lse(q, q, 1.0, backend="attention"),
        lambda: mean(q, [Keys(q, Mask(4))], 1.0, backend="attention"),
        lambda: mean(q, q, 1.0, weight_grad=False, backend="attention"),
        lambda: mean(q, [Keys(q), Keys(q)], 1.0, backend="attention"),
    ):
        with pytest.raises(ValueError, match="attention"):
            use()
    with pytest.raises(ValueError, match="backend must be one of"):
        lse(q, q, 1.0, backend="magic")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["dense", "chunked", "attention"])
def test_lower_precision(dtype, backend):
    """float32 to 1e-5; half types within their own rounding, of the inputs and of one product."""
    q, k = unit(embeddings(1, 20, 32)), unit(embeddings(1, 30, 32, seed=1))
    exact = value_and_gradient(lambda q, k: mean(q, k, 4.0, backend="dense").sum(), q, k)
    q, k = q.to(dtype), k.to(dtype)
    value, gradients = value_and_gradient(lambda q, k: mean(q, k, 4.0, backend=backend).sum(), q, k)
    tolerance = 1e-5 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps
    assert value.dtype == torch.float32
    assert abs(value - exact[0]) / 20 < tolerance
    for found, wanted in zip(gradients, exact[1], strict=True):
        assert found.dtype == dtype
        assert (found - wanted).abs().max() < tolerance * wanted.abs().max().clamp_min(1)


@pytest.mark.parametrize("weight_grad", [True, False])
@pytest.mark.parametrize("queue_grad", [True, False])
@pytest.mark.parametrize("backend", ["dense", "chunked"])
def test_a_union_is_one_softmax_with_part_of_its_weights_held(weight_grad, queue_grad, backend):
    q, own, queue = (
        unit(embeddings(2, 5, 3)),
        unit(embeddings(2, 5, 3, seed=1)),
        unit(embeddings(1, 8, 3, seed=2))[0],
    )
    hidden = torch.cat([torch.eye(5, dtype=torch.bool), torch.zeros(5, 8, dtype=torch.bool)], 1)
    queue_key = torch.arange(13) >= 5

    def whole(q, own, queue):
        """The definition: one softmax over all keys, the logits of held keys constant."""
        s = q @ torch.cat([own, queue.expand(2, -1, -1)], 1).mT
        flows = weight_grad & (queue_grad | ~queue_key) if weight_grad else torch.zeros(13, dtype=torch.bool)
        logits = torch.where(flows, s, s.detach()) * 3
        return (logits.masked_fill(hidden, -torch.inf).softmax(-1) * s).sum(-1).square().sum()

    def joined(q, own, queue):
        keys = [Keys(queue, queue=True), Keys(own, Mask(5))]
        found = mean(q, keys, 3.0, weight_grad=weight_grad, queue_grad=queue_grad, backend=backend)
        return found.square().sum()

    torch.testing.assert_close(
        value_and_gradient(joined, q, own, queue),
        value_and_gradient(whole, q, own, queue),
        atol=1e-10,
        rtol=0,
    )


@pytest.mark.parametrize("weight_grad", [True, False])
@pytest.mark.parametrize("queue_grad", [True, False])
@pytest.mark.parametrize("scale", [2.0, 0.0, -1.5])
@pytest.mark.parametrize("backend", ["dense", "chunked"])
def test_log_mean_exp_with_part_of_its_weights_held(weight_grad, queue_grad, scale, backend):
    q, own, queue = (
        unit(embeddings(1, 5, 3)),
        unit(embeddings(1, 6, 3, seed=1)),
        unit(embeddings(1, 8, 3, seed=2))[0],
    )
    queue_key = torch.arange(14) >= 6

    def whole(q, own, queue):
        s = q @ torch.cat([own, queue[None]], 1).mT
        flows = ~queue_key | queue_grad if weight_grad else torch.zeros(14, dtype=torch.bool)
        weights = (torch.where(flows, s, s.detach()) * scale).softmax(-1)
        return (weights * (1.5 * s).exp()).sum(-1).log().sum()

    def joined(q, own, queue):
        keys = [Keys(queue, queue=True), Keys(own)]
        settings = {"weight_grad": weight_grad, "queue_grad": queue_grad, "backend": backend}
        return log_mean_exp(q, keys, scale, 1.5, **settings).sum()

    torch.testing.assert_close(
        value_and_gradient(joined, q, own, queue),
        value_and_gradient(whole, q, own, queue),
        atol=1e-10,
        rtol=0,
    )


def test_a_query_without_any_key_is_harmless():
    q, k = unit(embeddings(1, 3, 2))[0], unit(embeddings(1, 4, 2, seed=1))[0]
    mask = Mask(labels=(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0, 0])))
    for backend in ("dense", "chunked"):
        found = lse(q.requires_grad_(), [Keys(k, mask)], 2.0, backend=backend)
        assert found[0] < -1e30
        assert torch.isfinite(
            torch.autograd.grad(torch.logaddexp(found, found.new_zeros(())).sum(), q)[0]
        ).all()


def largest_kept(compute):
    """The number of elements of the largest tensor that is kept for the backward pass."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        compute().sum().backward()
    return max(kept)


def test_the_backend_is_chosen_by_size(monkeypatch):
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (512, 1024))
    small, large = torch.randn(5, 128, 2, requires_grad=True), torch.randn(1, 2048, 2, requires_grad=True)
    assert largest_kept(lambda: lse(small, small, 1.0)) == 5 * 128 * 128
    assert largest_kept(lambda: lse(large, large, 1.0)) == 2048 * 2
    assert largest_kept(lambda: lse(large, large, 1.0, backend="dense")) == 2048 * 2048


def test_nothing_of_the_size_of_queries_times_keys_is_kept(monkeypatch):
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (512, 1024))
    q, k = torch.randn(1024, 4, requires_grad=True), torch.randn(4096, 4, requires_grad=True)
    assert largest_kept(lambda: mean(q, k, 2.0)) == 4096 * 4
