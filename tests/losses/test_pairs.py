"""Who is positive and who is negative."""

import pytest
import torch

from cacr.losses import CACRLoss, InfoNCELoss, image_text, in_batch, labelled, momentum, queued
from cacr.losses.engine.pairs import positives_only, unit
from tests.losses.making import embeddings


def rounded(vector):
    return tuple(round(x, 9) for x in vector.tolist())


def seen(pairs, group, image):
    """The negatives of one query, as a set of rounded vectors."""
    found = set()
    for keys in pairs.negatives:
        vectors = keys.vectors if keys.vectors.dim() == 2 else keys.vectors[group]
        hidden = torch.zeros(pairs.queries.shape[1], len(vectors), dtype=torch.bool)
        if keys.mask is not None:
            hidden = keys.mask.hidden(hidden)
        found |= {rounded(v) for v, h in zip(vectors, hidden[image], strict=True) if not h}
    return found


def rows(z, *places):
    return {rounded(z[place]) for place in places}


Z = unit(embeddings(3, 4, 5))


def test_same():
    pairs = in_batch(Z, "same")
    assert pairs.owner == (0, 1, 2)
    assert pairs.partner is None
    torch.testing.assert_close(pairs.queries, Z)
    assert seen(pairs, 1, 2) == rows(Z, (1, 0), (1, 1), (1, 3))
    torch.testing.assert_close(pairs.positives[1, 2], torch.stack([Z[1, 2] @ Z[0, 2], Z[1, 2] @ Z[2, 2]]))


def test_cross_pairs_each_group_with_the_positive_of_its_negatives():
    pairs = in_batch(Z, "cross")
    assert pairs.owner == (0, 0, 1, 1, 2, 2)
    assert pairs.key_view == (1, 2, 0, 2, 0, 1)
    assert seen(pairs, 3, 0) == rows(Z, (2, 1), (2, 2), (2, 3))
    cosines, absent = pairs.opposed()
    assert absent is None
    torch.testing.assert_close(cosines[3, 0, 0], Z[1, 0] @ Z[2, 0])


def test_cross_upper_has_no_group_for_the_last_view():
    pairs = in_batch(Z, "cross_upper")
    assert list(zip(pairs.owner, pairs.key_view, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert pairs.positives.shape == (3, 4, 2)  # attraction still has every view as a query
    torch.testing.assert_close(pairs.opposed()[0][1, 3, 0], Z[0, 3] @ Z[2, 3])


def test_all_is_one_softmax_over_every_view_of_other_images():
    pairs = in_batch(Z, "all")
    assert seen(pairs, 2, 1) == rows(Z, *[(v, j) for v in range(3) for j in (0, 2, 3)])
    assert pairs.log_count().exp().item() == pytest.approx(9)


def test_local_crops_are_queries_only():
    pairs = in_batch(Z, "all", key_views=(0, 1))
    assert pairs.absent[:, 0].tolist() == [[False, True], [False, True], [False, False]]
    torch.testing.assert_close(pairs.positives[2, 1], torch.stack([Z[2, 1] @ Z[0, 1], Z[2, 1] @ Z[1, 1]]))
    assert seen(pairs, 2, 1) == rows(Z, *[(v, j) for v in range(2) for j in (0, 2, 3)])
    cross = in_batch(Z, "cross", key_views=(0, 1))
    assert list(zip(cross.owner, cross.key_view, strict=True)) == [(0, 1), (1, 0), (2, 0), (2, 1)]
    only = in_batch(Z, "cross", query_views=(2,), key_views=(0, 1))
    assert only.positives.shape == (1, 4, 2)
    assert list(zip(only.owner, only.key_view, strict=True)) == [(0, 0), (0, 1)]


def test_ragged_positives_are_averaged_over_those_that_exist():
    pairs = in_batch(Z, "all", key_views=(0, 1))
    parts = CACRLoss(pos_weights="uniform").parts(pairs)
    costs = 2 - 2 * torch.einsum("vmd,wmd->vwm", Z, Z)
    local = (costs[2, 0] + costs[2, 1]) / 2
    torch.testing.assert_close(parts["attraction"], (costs[0, 1] + costs[1, 0] + local).mean() / 3)
    positive = InfoNCELoss().parts(pairs)["positive"]
    torch.testing.assert_close(positive, (costs[0, 1] + costs[1, 0] + costs[2, 0] + costs[2, 1]).mean() / 4)


def test_momentum_keys():
    k = unit(embeddings(2, 4, 5, seed=1))
    pairs = momentum(Z, k)
    assert list(zip(pairs.owner, pairs.key_view, strict=True)) == [(0, 1), (1, 0), (2, 0), (2, 1)]
    torch.testing.assert_close(pairs.positives[0, 2, 0], Z[0, 2] @ k[1, 2])
    assert seen(pairs, 2, 0) == rows(k, (0, 1), (0, 2), (0, 3))
    assert seen(momentum(Z[:2], k, "same"), 1, 0) == rows(k, (1, 1), (1, 2), (1, 3))
    with pytest.raises(ValueError, match="need keys of every view"):
        momentum(Z, k, "same")


def test_views_of_keys_by_number():
    pairs = momentum(Z[:1], Z[1:], key_views=(1, 2))
    assert pairs.positives.shape == (1, 4, 2)
    assert seen(pairs, 1, 0) == rows(Z, (2, 1), (2, 2), (2, 3))


def test_one_directional_momentum():
    """MoCo's own arrangement: view 0 asks, view 1 answers."""
    k = unit(embeddings(1, 4, 5, seed=1))
    pairs = queued(Z[:1], k, Z[2], in_batch=False, query_views=(0,), key_views=(1,))
    assert pairs.positives.shape == (1, 4, 1)
    torch.testing.assert_close(pairs.positives[0, 3, 0], Z[0, 3] @ k[0, 3])
    with pytest.raises(ValueError, match="at least 2 views"):
        queued(Z[:1], k, Z[2])
    with pytest.raises(ValueError, match="one view per row"):
        queued(Z[:1], k, Z[2], key_views=(1, 2))


def test_a_queue_with_and_without_the_batch():
    k, queue = unit(embeddings(3, 4, 5, seed=1)), unit(embeddings(1, 6, 5, seed=2))[0]
    pairs = queued(Z, k, queue)
    assert seen(pairs, 1, 2) == rows(queue, *range(6)) | rows(Z, (1, 0), (1, 1), (1, 3))
    assert pairs.log_count().exp().item() == pytest.approx(9)
    assert seen(queued(Z, k, queue, in_batch=False), 1, 2) == rows(queue, *range(6))
    torch.testing.assert_close(pairs.positives[1, 2, 1], Z[1, 2] @ k[2, 2])


def test_every_objective_of_the_queue_sees_one_union():
    """InfoNCE with the queue is the plain 1-vs-many cross-entropy over queue and batch."""
    k, queue = unit(embeddings(2, 4, 5, seed=1)), unit(embeddings(1, 6, 5, seed=2))[0]
    expected = []
    for v in range(2):
        for i in range(4):
            keys = torch.stack([k[1 - v, i], *queue, *[Z[v, j] for j in range(4) if j != i]])
            expected.append(torch.nn.functional.cross_entropy(keys @ Z[v, i] / 0.2, torch.tensor(0)))
    loss = InfoNCELoss(0.2)(queued(Z[:2], k, queue))
    torch.testing.assert_close(loss, torch.stack(expected).mean())


def test_image_text_is_cross_modal_in_both_directions():
    images, texts = Z[:2], Z[2]
    pairs = image_text(images, texts)
    assert list(zip(pairs.owner, pairs.key_view, strict=True)) == [(0, 2), (1, 2), (2, 0), (2, 1)]
    assert pairs.absent[:, 0].tolist() == [[False, True], [False, True], [False, False]]
    assert seen(pairs, 0, 1) == rows(Z, (2, 0), (2, 2), (2, 3))
    one = CACRLoss()(image_text(Z[0], texts))
    torch.testing.assert_close(one, CACRLoss(negatives="cross")(torch.stack([Z[0], texts])))


def test_labels_with_ragged_positives():
    z = unit(embeddings(1, 6, 3)[0])
    labels = torch.tensor([5, 2, 5, 9, 2, 5])
    pairs = labelled(z, labels)
    torch.testing.assert_close(pairs.queries[0], z[[0, 1, 2, 4, 5]])  # the only row of label 9 is no query
    own = pairs.positives[0, 1][~pairs.absent[0, 1]]
    torch.testing.assert_close(own, torch.stack([z[1] @ z[4]]))
    first = pairs.positives[0, 0][~pairs.absent[0, 0]].sort().values
    torch.testing.assert_close(first, torch.stack([z[0] @ z[2], z[0] @ z[5]]).sort().values)
    assert seen(pairs, 0, 1) == rows(z, 0, 2, 3, 5)
    assert pairs.log_count().exp().round().tolist() == [3, 4, 3, 4, 3]


def test_labels_that_leave_nothing_to_contrast():
    z = embeddings(1, 4, 3)[0]
    for labels in ([0, 1, 2, 3], [1, 1, 1, 1]):
        with pytest.raises(ValueError, match="both a positive and a negative"):
            labelled(z, torch.tensor(labels))
    with pytest.raises(ValueError, match=r"labels \(rows,\)"):
        labelled(z, torch.tensor([1, 1]))


def test_gradients_reach_queries_and_keys_alike():
    q, k = embeddings(2, 4, 5).requires_grad_(), embeddings(2, 4, 5, seed=1).requires_grad_()
    CACRLoss()(momentum(q, k)).backward()
    assert q.grad.norm() > 0
    assert k.grad.norm() > 0


@pytest.mark.parametrize("rule", ["same", "cross", "cross_upper", "all"])
def test_too_few_images_or_views_is_a_clear_error(rule):
    with pytest.raises(ValueError, match="at least 2 images"):
        in_batch(embeddings(2, 1, 3), rule)
    with pytest.raises(ValueError, match="at least 2 views"):
        in_batch(embeddings(1, 4, 3), rule)


def test_wrong_shapes_and_names_are_clear_errors():
    with pytest.raises(ValueError, match=r"z must have shape \(views, images, dim\)"):
        in_batch(embeddings(2, 4, 3)[0])
    with pytest.raises(ValueError, match="negatives must be one of same, cross, cross_upper, all"):
        in_batch(embeddings(2, 4, 3), "others")
    with pytest.raises(ValueError, match="must be the same images"):
        momentum(embeddings(2, 4, 3), embeddings(2, 5, 3))
    with pytest.raises(ValueError, match="must be the same images"):
        queued(embeddings(2, 4, 3), embeddings(2, 5, 3), Z[0, :, :3])
    with pytest.raises(ValueError, match="need views in their order"):
        momentum(Z[:1], Z[1:], "same", key_views=(1, 2))


def test_positives_alone_need_no_second_image():
    pairs = positives_only(Z[:, :1])
    assert pairs.positives.shape == (3, 1, 2)
    assert pairs.negatives == ()
