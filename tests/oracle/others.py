"""The other objectives, written out with loops; z is (views, images, dim) of unit vectors."""

import math
from itertools import product

import numpy as np

from tests.oracle.cacr import negative_keys, positives, softmax, squared_distance


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cross_entropy(query, positive, negatives, tau):
    own = math.exp(dot(query, positive) / tau)
    return -math.log(own / (own + sum(math.exp(dot(query, n) / tau) for n in negatives)))


def ordered_pairs(z, rule):
    """(query, positive, negatives) of every ordered pair of views and every image."""
    for v in range(len(z)):
        for i in range(z.shape[1]):
            sets = negative_keys(z, v, i, rule)
            partners = [w for w in range(len(z)) if w != v]
            if rule == "cross_upper":
                partners = [w for w in partners if w > v]
            for n, w in enumerate(partners):
                yield z[v, i], z[w, i], sets[n] if rule.startswith("cross") else sets[0]


def info_nce(z, tau=0.19, rule="all"):
    found = [cross_entropy(q, p, n, tau) for q, p, n in ordered_pairs(z, rule)]
    return sum(found) / len(found)


def false_negative_cancellation(z, tau, kind, top, threshold):
    """FNC over all other embeddings: the ``top`` nearest to any view of the image, above a threshold."""
    views, images = z.shape[:2]
    found = []
    for i in range(images):
        keys = [(w, j) for w in range(views) for j in range(images) if j != i]
        score = {key: max(dot(z[v, i], z[key]) for v in range(views)) for key in keys}
        best = sorted(keys, key=lambda key: -score[key])[:top]
        false = [key for key in best if score[key] > threshold]
        for v in range(views):
            for w in range(views):
                if w == v:
                    continue
                s_pos = dot(z[v, i], z[w, i]) / tau
                kept = [key for key in keys if kind == "attract" or key not in false]
                denominator = math.exp(s_pos) + sum(math.exp(dot(z[v, i], z[key]) / tau) for key in kept)
                numerators = [s_pos]
                if kind == "attract":
                    numerators += [dot(z[v, i], z[key]) / tau for key in false]
                found.append(-sum(s - math.log(denominator) for s in numerators) / len(numerators))
    return sum(found) / len(found)


def align(z, alpha=2.0):
    found = [
        math.sqrt(squared_distance(z[v, i], p)) ** alpha
        for v in range(len(z))
        for i in range(z.shape[1])
        for p in positives(z, v, i)
    ]
    return sum(found) / len(found)


def uniform(z, t=2.0):
    views, images = z.shape[:2]
    logs = []
    for v in range(views):
        pairs = [(i, j) for i in range(images) for j in range(i)]
        logs.append(
            math.log(sum(math.exp(-t * squared_distance(z[v, i], z[v, j])) for i, j in pairs) / len(pairs))
        )
    return sum(logs) / len(logs)


def hard_negative(z, tau=0.5, beta=1.0, tau_plus=0.1, rule="all"):
    found = []
    for query, positive, negatives in ordered_pairs(z, rule):
        n = len(negatives)
        own = math.exp(dot(query, positive) / tau)
        exps = [math.exp(dot(query, k) / tau) for k in negatives]
        importance = [e**beta for e in exps]
        reweighted = sum(w * e for w, e in zip(importance, exps, strict=True)) / (sum(importance) / n)
        ng = max((reweighted - tau_plus * n * own) / (1 - tau_plus), n * math.exp(-1 / tau))
        found.append(-math.log(own / (own + ng)))
    return sum(found) / len(found)


def triplet(z, margin, mining, rule="same"):
    found = []
    for v in range(len(z)):
        for i in range(z.shape[1]):
            near = [squared_distance(z[v, i], p) for p in positives(z, v, i)]
            for negatives in negative_keys(z, v, i, rule):
                far = [squared_distance(z[v, i], n) for n in negatives]
                plus = max(near) if mining == "hard" else sum(near) / len(near)
                minus = min(far) if mining == "hard" else sum(far) / len(far)
                found.append(max(0.0, plus - minus + margin))
    return sum(found) / len(found)


def byol(q, k):
    found = [
        squared_distance(q[v, i], k[w, i])
        for v in range(len(q))
        for w in range(len(k))
        for i in range(q.shape[1])
        if v != w
    ]
    return sum(found) / len(found)


def clip(images, texts, tau):
    n = len(images)
    total = 0.0
    for here, there in ((images, texts), (texts, images)):
        for i in range(n):
            total += cross_entropy(here[i], there[i], [there[j] for j in range(n) if j != i], tau) / n
    return total / 2


def barlow_twins(z, redundancy=0.0051, eps=1e-5):
    """The embeddings are not normalised."""
    views, images, dim = z.shape
    losses = []
    for v in range(views):
        for w in range(v):
            correlation = np.zeros((dim, dim))
            for a in range(dim):
                for b in range(dim):
                    x, y = z[v, :, a], z[w, :, b]
                    x = (x - x.mean()) / math.sqrt(x.var() + eps)
                    y = (y - y.mean()) / math.sqrt(y.var() + eps)
                    correlation[a, b] = sum(x * y) / images
            on = sum((1 - correlation[a, a]) ** 2 for a in range(dim))
            off = sum(correlation[a, b] ** 2 for a in range(dim) for b in range(dim) if a != b)
            losses.append(on + redundancy * off)
    return sum(losses) / len(losses)


def swav(z, prototypes, tau, epsilon, iterations, assigning):
    scores = np.einsum("vmd,pd->vmp", z, prototypes)
    images, count = scores.shape[1:]
    losses = []
    for v in range(min(assigning, len(z))):
        q = np.exp(scores[v] / epsilon)
        q /= q.sum()
        for _ in range(iterations):
            q /= q.sum(0, keepdims=True) * count
            q /= q.sum(1, keepdims=True) * images
        q *= images
        for w in range(len(z)):
            if w != v:
                for i in range(images):
                    p = softmax(list(scores[w, i] / tau))
                    losses.append(-sum(q[i, c] * math.log(p[c]) for c in range(count)))
    return sum(losses) / len(losses)


def vicreg(z, weights=(25.0, 25.0, 1.0), eps=1e-4):
    """Invariance, variance and covariance as the authors' code has them for two views; not normalised."""
    views, _, dim = z.shape
    pairs = [(v, w) for v in range(views) for w in range(v)]
    invariance = sum(((z[v] - z[w]) ** 2).mean() for v, w in pairs) / len(pairs)
    variance = covariance = 0.0
    for view in z:
        c = np.cov(view.T, ddof=1)
        for a in range(dim):
            variance += max(0.0, 1 - math.sqrt(c[a, a] + eps)) / dim / views
            covariance += 2 * sum(c[a, b] ** 2 for b in range(dim) if b != a) / dim / views
    return weights[0] * invariance + weights[1] * variance + weights[2] * covariance


def sigreg(z, directions, points=100_001, furthest=40.0):
    """N times the integral over t, by a fine rule on an interval beyond which nothing is left."""
    t = np.linspace(-furthest, furthest, points)
    normal = np.exp(-(t**2) / 2)
    found = []
    for view in z:
        for direction in directions.T:
            along = view @ direction
            empirical = np.mean([np.exp(1j * t * x) for x in along], axis=0)
            integrand = np.abs(empirical - normal) ** 2 * normal
            found.append(len(view) * np.trapezoid(integrand, t))
    return sum(found) / len(found)


def soft_labels(k, negatives, tau, neighbours):
    """ASCL's labels of a key and of its negatives, in this order."""
    p = softmax([dot(k, n) / tau for n in negatives])
    entropy = -sum(x * math.log(x) for x in p)
    sure = 1 - entropy / math.log(len(negatives))
    labels = [1.0] + [min(1.0, neighbours * sure * x) for x in p]
    return [x / sum(labels) for x in labels]


def soft_cross_entropy(query, keys, labels, tau):
    """-sum_j label_j ln softmax_j(query . key_j / tau)."""
    predicted = softmax([dot(query, x) / tau for x in keys])
    return -sum(a * math.log(b) for a, b in zip(labels, predicted, strict=True))


def ascl(q, keys, queue, tau, label_tau, neighbours, positives):
    """Queries (views, images, dim) against keys and a queue; ``positives`` lists each query view's key views."""
    losses = []
    for v, ws in enumerate(positives):
        for i in range(q.shape[1]):
            for w in ws:
                labels = soft_labels(keys[w, i], queue, label_tau, neighbours)
                losses.append(soft_cross_entropy(q[v, i], [keys[w, i], *queue], labels, tau))
    return sum(losses) / len(losses)


def ascl_in_batch(z, held, tau, label_tau, neighbours):
    """Negatives are all views of other images; labels follow from ``held`` (views, images, dim), not from z."""
    views, images, _ = z.shape
    losses = []
    for v, w, i in product(range(views), range(views), range(images)):
        if v != w:
            rest = [(u, j) for u in range(views) for j in range(images) if j != i]
            labels = soft_labels(held[w, i], [held[place] for place in rest], label_tau, neighbours)
            keys = [z[place] for place in [(w, i), *rest]]
            losses.append(soft_cross_entropy(z[v, i], keys, labels, tau))
    return sum(losses) / len(losses)


def adaclr_of(query, own, rest, tau, neighbours):
    """One query: the nearest of ``rest`` join its own positives."""
    near = sorted(rest, key=lambda x: -dot(query, x))[:neighbours]
    total = math.log(sum(math.exp(dot(query, x) / tau) for x in own + rest))
    chosen = own + near
    return sum(total - dot(query, x) / tau for x in chosen) / len(chosen)


def adaclr(z, tau, neighbours):
    """All views of all images; the nearest of other images join the own views."""
    views, images, _ = z.shape
    losses = []
    for v in range(views):
        for i in range(images):
            own = [z[w, i] for w in range(views) if w != v]
            rest = [z[w, j] for w in range(views) for j in range(images) if j != i]
            losses.append(adaclr_of(z[v, i], own, rest, tau, neighbours))
    return sum(losses) / len(losses)


def attraction_at_keys(q, k, t_pos):
    """pi+ over the queries of a key that show other views; the mean over keys of the weighted distances."""
    total = []
    for a in range(len(k)):
        for i in range(q.shape[1]):
            costs = [squared_distance(q[b, i], k[a, i]) for b in range(len(q)) if b != a]
            weights = softmax([t_pos * c for c in costs])
            total.append(sum(w * c for w, c in zip(weights, costs, strict=True)))
    return sum(total) / len(total)


def labelled_pairs(z, labels):
    """(query, positives, negatives) of each row that has both."""
    for i in range(len(z)):
        same = [z[j] for j in range(len(z)) if j != i and labels[j] == labels[i]]
        other = [z[j] for j in range(len(z)) if labels[j] != labels[i]]
        if same and other:
            yield z[i], same, other


def released_moco_v3(q, k, temperature, kind):
    """As the authors' code, but averaged over images where the Euclidean code sums."""
    images = q.shape[1]
    total = 0.0
    for a in range(len(k)):
        others = [b for b in range(len(q)) if b != a]
        for i in range(images):
            p = softmax([squared_distance(q[b, i], k[a, i]) / temperature for b in others])
            for share, b in zip(p, others, strict=True):
                negatives = [k[a, j] for j in range(images) if j != i]
                if kind == "rbf":
                    loss = 2 * temperature * cross_entropy(q[b, i], k[a, i], negatives, temperature)
                else:
                    pi = softmax([-(1 - dot(q[b, i], n)) / temperature for n in negatives])
                    loss = 1 - dot(q[b, i], k[a, i])
                    loss -= sum(w * (1 - dot(q[b, i], n)) for w, n in zip(pi, negatives, strict=True))
                total += share * loss / images
    return total / len(k)


def moco_v3(q, k, temperature):
    """MoCo-v3's own loss at two views: 2 T (CE(q1, k2) + CE(q2, k1))."""
    total = 0.0
    for v, w in ((0, 1), (1, 0)):
        for i in range(q.shape[1]):
            negatives = [k[w, j] for j in range(q.shape[1]) if j != i]
            total += 2 * temperature * cross_entropy(q[v, i], k[w, i], negatives, temperature) / q.shape[1]
    return total
