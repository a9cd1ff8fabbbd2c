"""Draws the figures of docs/explanation/objective.md beside this file: `python docs/figures/theory.py`."""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

HERE = Path(__file__).parent
PULL, PUSH, INK, PALE = "#1f6fb2", "#c2452d", "#222222", "#bbbbbb"
plt.rcParams.update(
    {
        "font.size": 9,
        "svg.hashsalt": "cacr",
        "svg.fonttype": "path",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


def save(name: str) -> None:
    """Write the current figure, the same bytes every time."""
    plt.savefig(HERE / name, bbox_inches="tight", metadata={"Date": None})
    plt.close()


def on_circle(degrees: list[float]) -> np.ndarray:
    """Points (n, 2) of the unit circle."""
    angle = np.radians(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Exponentials that sum to one."""
    exps = np.exp(logits - logits.max())
    return exps / exps.sum()


def scene(axes: Axes, title: str, pull: np.ndarray, push: np.ndarray) -> None:
    """One query on the circle, its positives and negatives, the area of a point its weight."""
    query, positives, negatives = points()
    axes.add_patch(Circle((0, 0), 1, fill=False, color=PALE))
    axes.scatter(*query, marker="*", s=160, color=INK, zorder=3)
    axes.annotate("query", query, textcoords="offset points", xytext=(0, -16), ha="center")
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.3))
    for group, weights, colour in ((positives, pull, PULL), (negatives, push, PUSH)):
        axes.scatter(*group.T, s=8 + 600 * weights, color=colour, alpha=0.65, zorder=2, linewidths=0)
    axes.set_title(title)
    axes.set_aspect("equal")
    axes.axis("off")


def points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The query, its positives and its negatives."""
    query = on_circle([90])[0]
    return query, on_circle([76, 104, 128, 145]), on_circle([55, 35, 10, -60, 190, 230, 260])


def weights_figure() -> None:
    """How much each sample counts."""
    query, positives, negatives = points()
    c_pos, c_neg = ((group - query) ** 2 for group in (positives, negatives))
    c_pos, c_neg = c_pos.sum(-1), c_neg.sum(-1)
    _, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 3.2))
    one = np.zeros(len(c_pos))
    one[1] = 1
    uniform = np.full(len(c_neg), 1 / len(c_neg))
    scene(left, "InfoNCE: one positive,\nnegatives alike", one, uniform)
    scene(middle, "CACR, uniform weights (UAUR)", np.full(len(c_pos), 1 / len(c_pos)), uniform)
    scene(right, "CACR, $t^+ = 1$, $t^- = 2$", softmax(c_pos), softmax(-2 * c_neg))
    save("weights.svg")


def flow_figure() -> None:
    """From images to the loss."""
    _, axes = plt.subplots(figsize=(11, 3))
    axes.set(xlim=(0, 18), ylim=(0, 6))
    axes.axis("off")

    def box(x: float, y: float, text: str, colour: str = INK, width: float = 3.1) -> None:
        axes.add_patch(
            FancyBboxPatch((x, y), width, 1.1, boxstyle="round,pad=0.08", fill=False, color=colour)
        )
        axes.text(x + width / 2, y + 0.55, text, ha="center", va="center", color=colour)

    def arrow(a: tuple[float, float], b: tuple[float, float], colour: str = INK) -> None:
        axes.add_patch(FancyArrowPatch(a, b, arrowstyle="-|>", mutation_scale=10, color=colour))

    box(0.1, 2.4, "images, $K+1$ views")
    box(4.2, 2.4, "encoder, unit length")
    box(8.3, 4.4, "positives: $c_{ik}$", PULL)
    box(8.3, 0.4, "negatives: $c_{ij}$", PUSH)
    box(12.2, 4.4, r"$\pi^+ = $ softmax$(t^+ c_{ik})$", PULL, 3.4)
    box(12.2, 0.4, r"$\pi^- = $ softmax$(-t^- c_{ij})$", PUSH, 3.4)
    arrow((3.3, 2.95), (4.1, 2.95))
    arrow((7.4, 3.3), (8.6, 4.3), PULL)
    arrow((7.4, 2.6), (8.6, 1.6), PUSH)
    arrow((11.5, 4.95), (12.1, 4.95), PULL)
    arrow((11.5, 0.95), (12.1, 0.95), PUSH)
    axes.text(14.0, 3.45, r"$L_{CA} = \sum_k \pi^+_{ik} c_{ik}$", ha="center", color=PULL)
    axes.text(14.0, 2.3, r"$L_{CR} = -\sum_j \pi^-_{ij} c_{ij}$", ha="center", color=PUSH)
    axes.text(17.0, 2.9, "loss:\ntheir sum", ha="center", va="center")
    save("flow.svg")


def forces_figure() -> None:
    """What each negative feels, with gradients through the weights and without."""
    costs = np.linspace(0.02, 3.98, 200)
    _, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for panel, t in zip(axes, (1.0, 4.0), strict=True):
        # Negatives of a 16-dimensional uniform sphere: the density of the cost, times its weight.
        density = (costs * (4 - costs)) ** 6.5
        density /= density.sum()
        weights = density * np.exp(-t * costs)
        weights /= weights.sum()
        expected = (weights * costs).sum()
        relative = weights / density
        panel.plot(costs, relative, color=PALE, label="weights held (InfoNCE's shape)")
        panel.plot(
            costs, relative * (1 - t * (costs - expected)), color=PUSH, label="gradients through weights"
        )
        panel.axvline(expected + 1 / t, color=INK, lw=0.7, ls=":")
        panel.axhline(0, color=INK, lw=0.7)
        panel.annotate(
            "attracted\nbeyond here", (expected + 1 / t, 3), textcoords="offset points", xytext=(4, 0)
        )
        panel.set(
            title=f"$t^- = {t:g}$", xlabel="squared distance of the negative", xlim=(0, 4), ylim=(-1.5, 8)
        )
    axes[0].set_ylabel("repulsion, relative to uniform weights")
    axes[0].legend(frameon=False, loc="upper right")
    save("forces.svg")


def lemma_figure() -> None:
    """Where the paper's third lemma holds with the cost that is trained: opposite negatives."""
    tau = np.linspace(0.05, 1, 200)
    _, axes = plt.subplots(figsize=(5, 3))
    axes.plot(tau, -1 / tau, color=PUSH, label=r"$L_{uniform} + I = -1/\tau$")
    axes.axhline(-4, color=INK, label=r"$L_{CR} = -4$")
    axes.axvline(0.25, color=INK, lw=0.7, ls=":")
    for value in (0.07, 0.19, 0.2):
        axes.plot(value, -1 / value, "o", color=PUSH)
    axes.annotate("the paper's temperatures", (0.2, -5), textcoords="offset points", xytext=(20, -20))
    axes.set(xlabel=r"temperature $\tau$", ylim=(-16, 0), title="Negatives opposite to the query")
    axes.legend(frameon=False, loc="lower right")
    save("lemma3.svg")


if __name__ == "__main__":
    weights_figure()
    flow_figure()
    forces_figure()
    lemma_figure()
