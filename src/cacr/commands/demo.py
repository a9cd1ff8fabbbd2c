"""The demo: a few minutes on real images that come with the installation."""

from pathlib import Path
from statistics import stdev

from cacr.api import evaluate, pretrain
from cacr.evaluation import Result
from cacr.reporting.results import results_table
from cacr.shell import shell_words
from cacr.terminal import CleanConsole

LABELS_PER_CLASS = 10
RECIPE = "digits-cacr-k4"


def run_demo(out: Path) -> str:
    """Pretrain on unbalanced digits, evaluate beside two baselines, say where the report is.

    A demo that was interrupted is continued, and one that is finished is only evaluated again.

    Returns:
        How the pretraining ended (see :class:`cacr.training.pretrain.Outcome`).
    """
    console = CleanConsole()
    console.print(
        "Pretraining without labels on handwritten digits, made unbalanced: few zeros, many nines.\n"
    )
    outcome = pretrain(recipe=RECIPE, out=out, resume=True)
    if outcome.status == "interrupted":
        console.print(f"the demo goes on with: {shell_words('cacr', 'demo', '--out', out)}", soft_wrap=True)
        return outcome.status
    console.print(
        "\nEvaluating on digits that it has not seen, beside the same encoder untrained and raw pixels ..."
    )
    results: list[Result] = []
    for labels in (LABELS_PER_CLASS, None):
        results += evaluate(
            run=out, data="digits", baselines=("untrained", "pixels"), labels_per_class=labels
        )
    console.print(results_table(results))
    console.print(f"{_verdict(results)}\nreport: {out / 'report.html'}")
    return outcome.status


def _verdict(results: list[Result]) -> str:
    """One sentence on the linear probe with few labels."""
    scores = {r.subject: r for r in results if r.protocol == "linear" and r.labels_per_class}
    ours, spread = scores["encoder"].score, scores["encoder"].spread or 0.0
    best = max((result for name, result in scores.items() if name != "encoder"), key=lambda r: r.score)
    gain = ours - best.score
    wins = "more" if gain > spread else "not more"
    # Every subject gets the same draws, and a difference with the same labels varies less than the scores do.
    pairs = zip(scores["encoder"].details["scores"], best.details["scores"], strict=True)
    return (
        f"With {LABELS_PER_CLASS} labels a class the pretrained encoder is {100 * gain:+.1f} points against "
        f"{best.subject}, the better baseline: {wins} than the spread over draws of the labels.\n"
        f"Draw by draw the difference varies by {100 * stdev(a - b for a, b in pairs):.1f}."
    )
