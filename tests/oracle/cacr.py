"""Contrastive attraction and repulsion, written out with loops; z is (views, images, dim) of unit vectors."""

import math

import numpy as np


def unit(z):
    z = np.asarray(z, dtype=np.float64)
    out = np.zeros_like(z)
    for index in np.ndindex(z.shape[:-1]):
        out[index] = z[index] / math.sqrt(sum(x * x for x in z[index]))
    return out


def squared_distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def cost(a, b, kind="euclidean"):
    return -sum(x * y for x, y in zip(a, b, strict=True)) if kind == "inner" else squared_distance(a, b)


def softmax(logits):
    top = max(logits)
    exps = [math.exp(x - top) for x in logits]
    return [e / sum(exps) for e in exps]


def weights(distances, t, kind):
    """Weights of samples at these squared distances; t > 0 favours far ones, t < 0 near ones."""
    if kind == "uniform":
        return [1 / len(distances)] * len(distances)
    return softmax([(t if kind == "softmax" else -t) * d for d in distances])


def negative_keys(z, v, i, rule):
    """The list of negative sets of the query z[v, i]; one softmax over each set."""
    views, images = z.shape[:2]
    others = [j for j in range(images) if j != i]
    if rule == "same":
        return [[z[v, j] for j in others]]
    if rule == "cross":
        return [[z[w, j] for j in others] for w in range(views) if w != v]
    if rule == "cross_upper":
        return [[z[w, j] for j in others] for w in range(views) if w > v]
    if rule == "all":
        return [[z[w, j] for w in range(views) for j in others]]
    raise ValueError(rule)


def attraction_of(query, positives, t_pos=1.0, kind="softmax", cost_kind="euclidean"):
    """sum_k pi+_k c(query, positive_k)."""
    pi = weights([squared_distance(query, p) for p in positives], t_pos, kind)
    return sum(w * cost(query, p, cost_kind) for w, p in zip(pi, positives, strict=True))


def repulsion_of(query, negatives, t_neg=2.0, kind="softmax", cost_kind="euclidean"):
    """-sum_j pi-_j c(query, negative_j)."""
    pi = weights([squared_distance(query, n) for n in negatives], -t_neg, kind)
    return -sum(w * cost(query, n, cost_kind) for w, n in zip(pi, negatives, strict=True))


def kernel_of(query, negatives, t_neg, rbf_t, kind="softmax"):
    """sum_j pi-_j exp(-t d_j)."""
    d = [squared_distance(query, n) for n in negatives]
    return sum(w * math.exp(-rbf_t * x) for w, x in zip(weights(d, -t_neg, kind), d, strict=True))


def positives(z, v, i):
    return [z[w, i] for w in range(len(z)) if w != v]


def attraction(z, t_pos=1.0, kind="softmax", cost_kind="euclidean"):
    views, images = z.shape[:2]
    total = 0.0
    for v in range(views):
        for i in range(images):
            total += attraction_of(z[v, i], positives(z, v, i), t_pos, kind, cost_kind)
    return total / (views * images)


def mean_cost(query, others, cost_kind):
    return sum(cost(query, o, cost_kind) for o in others) / len(others)


def repulsion(z, t_neg=2.0, rule="same", kind="softmax", cost_kind="euclidean", tau_plus=0.0):
    found = []
    for v in range(len(z)):
        for i in range(z.shape[1]):
            for negatives in negative_keys(z, v, i, rule):
                cr = repulsion_of(z[v, i], negatives, t_neg, kind, cost_kind)
                correction = tau_plus * mean_cost(z[v, i], positives(z, v, i), cost_kind)
                found.append((cr + correction) / (1 - tau_plus))
    return sum(found) / len(found)


def rbf_repulsion(z, t_neg=2.0, rbf_t=2.0, rule="same", kind="softmax", tau_plus=0.0):
    """The log of the mean over the images of one view, or pair of views; then the mean over those."""
    views, images = z.shape[:2]
    logs = []
    for v in range(views):
        for g in range(len(negative_keys(z, v, 0, rule))):
            total = 0.0
            for i in range(images):
                e = kernel_of(z[v, i], negative_keys(z, v, i, rule)[g], t_neg, rbf_t, kind)
                own = [math.exp(-rbf_t * squared_distance(z[v, i], p)) for p in positives(z, v, i)]
                e = (e - tau_plus * sum(own) / len(own)) / (1 - tau_plus)
                total += max(e, math.exp(-4 * rbf_t))
            logs.append(math.log(total / images))
    return sum(logs) / len(logs)


def hinge(z, margin, t_pos=1.0, t_neg=2.0, rule="same"):
    found = []
    for v in range(len(z)):
        for i in range(z.shape[1]):
            ca = attraction_of(z[v, i], positives(z, v, i), t_pos)
            for negatives in negative_keys(z, v, i, rule):
                found.append(max(0.0, ca + repulsion_of(z[v, i], negatives, t_neg) + margin))
    return sum(found) / len(found)


def queued(q, k, queue, t_pos=1.0, t_neg=2.0, in_batch=True):
    """MoCo-v2: positives k[w, i], w != v; negatives the queue and q[v, j], j != i."""
    views, images = q.shape[:2]
    total = 0.0
    for v in range(views):
        for i in range(images):
            own = [q[v, j] for j in range(images) if j != i] if in_batch else []
            total += attraction_of(q[v, i], [k[w, i] for w in range(len(k)) if w != v], t_pos)
            total += repulsion_of(q[v, i], list(queue) + own, t_neg)
    return total / (views * images)


def followed_spread(batches, t_neg, loss_of, growth, decline, margin, least):
    """t- of each batch, and after the last; ``loss_of(batch, t)`` gives what attracts and what repels there."""
    t = least * t_neg
    found = [t]
    for batch in batches:
        attracted, repelled = loss_of(batch, t)
        if attracted < margin * repelled:
            t = t * growth
            if t > t_neg:
                t = t_neg
        else:
            t = t * decline
            if t < least * t_neg:
                t = least * t_neg
        found.append(t)
    return found


def entropy(z, t_neg=2.0, rule="same"):
    """H(X-|X) = mean_i -sum_j pi-_ij ln pi-_ij."""
    found = []
    for v in range(len(z)):
        for i in range(z.shape[1]):
            for negatives in negative_keys(z, v, i, rule):
                pi = weights([squared_distance(z[v, i], n) for n in negatives], -t_neg, "softmax")
                found.append(-sum(w * math.log(w) for w in pi if w > 0))
    return sum(found) / len(found)
