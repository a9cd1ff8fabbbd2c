"""Figures of features without labels, written out with loops; features are (images, dim) or (views, images, dim)."""

import numpy as np


def cosine(a, b):
    lengths = np.sqrt(np.sum(a * a)) * np.sqrt(np.sum(b * b))
    return float(np.sum(a * b) / lengths) if lengths > 0 else 0.0


def read(fitted, features, components=64):
    """Whitened by the leading principal components of ``fitted``, at most a quarter of its images; of length one."""
    mean = fitted.mean(axis=0)
    _, deviations, directions = np.linalg.svd(fitted - mean, full_matrices=False)
    kept = range(min(components, len(fitted) // 4))
    found = []
    for x in features:
        y = np.array([np.sum((x - mean) * directions[k]) / deviations[k] for k in kept])
        found.append(y / np.sqrt(np.sum(y * y)))
    return np.array(found)


def retrieval(queries, keys):
    """(found, rank): the share of queries whose own key is the nearest one, and the mean reciprocal rank.

    Keys that are as near as the own one stand before it in some orders: all ranks that it can have are averaged.
    """
    found, reciprocal = [], []
    for i, query in enumerate(queries):
        own = cosine(query, keys[i])
        others = [cosine(query, key) for j, key in enumerate(keys) if j != i]
        equal = sum(abs(other - own) < 1e-9 for other in others)
        before = sum(other > own for other in others) - sum(0 < other - own < 1e-9 for other in others)
        ranks = range(before + 1, before + equal + 2)
        found.append(np.mean([rank == 1 for rank in ranks]))
        reciprocal.append(np.mean([1 / rank for rank in ranks]))
    return np.mean(found), np.mean(reciprocal)


def neighbours(query, keys, own, k):
    """The k keys that are nearest to a query, but for its own."""
    others = [j for j in range(len(keys)) if j != own]
    return set(sorted(others, key=lambda j: -cosine(query, keys[j]))[:k])


def neighbour_agreement(centre, views, k=10):
    """Shared neighbours of an image's centre view and another view among centre views, beyond chance."""
    shared = []
    for view in views:
        for i in range(len(centre)):
            both = neighbours(centre[i], centre, i, k) & neighbours(view[i], centre, i, k)
            shared.append(len(both) / k)
    chance = k / (len(centre) - 1)
    return (np.mean(shared) - chance) / (1 - chance)


def k_means(x, k, rounds=20):
    """Means that start at the first k points."""
    means = [x[c] for c in range(k)]
    for _ in range(rounds):
        nearest = assigned(x, means)
        members = [[x[i] for i in range(len(x)) if nearest[i] == c] for c in range(k)]
        means = [np.mean(own, axis=0) if own else means[c] for c, own in enumerate(members)]
    return means


def assigned(x, means):
    return [int(np.argmin([np.sum((point - mean) ** 2) for mean in means])) for point in x]


def half_agreement(x, orders):
    """The adjusted Rand index of two divisions of a half, for each half of each order of the images."""
    found = []
    for order in orders:
        middle = (len(x) + 1) // 2
        halves = [x[order[:middle]], x[order[middle:]]]
        means = [k_means(half, min(10, len(half) // 4)) for half in halves]
        found += [rand_index(assigned(half, means[0]), assigned(half, means[1])) for half in halves]
    return np.mean(found)


def rand_index(first, second):
    """Pairs of points that both divisions put together, against chance; from counting all pairs."""
    n = len(first)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    one = [first[i] == first[j] for i, j in pairs]
    other = [second[i] == second[j] for i, j in pairs]
    both = sum(a and b for a, b in zip(one, other, strict=True))
    expected = sum(one) * sum(other) / len(pairs)
    most = (sum(one) + sum(other)) / 2
    return (both - expected) / (most - expected) if most > expected else 0.0


def feature_rank(features):
    values = np.linalg.svd(features - features.mean(axis=0), compute_uv=False)
    p = values[values > 1e-9 * values.max()] / values.sum()
    return np.exp(-np.sum(p * np.log(p)))


def feature_spread(features):
    n = len(features)
    return np.mean([1 - cosine(features[i], features[j]) for i in range(n) for j in range(n) if i != j])
