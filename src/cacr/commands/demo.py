"""The demo: a few minutes on real images that come with the installation."""

from pathlib import Path

from cacr.api import evaluate, pretrain
from cacr.evaluation import Result
from cacr.reporting.headline import headline_of
from cacr.reporting.next_step import next_lines
from cacr.reporting.results import results_table
from cacr.runs.run import Run
from cacr.shell import shell_words
from cacr.terminal import CleanConsole

LABELS_PER_CLASS = 10
RECIPE = "digits-cacr-k4"


def run_demo(out: Path) -> str:
    """Pretrain on unbalanced digits, compare with two baselines, print where the report is.

    An interrupted demo is continued. A finished demo is only evaluated again.

    Returns:
        How the pretraining ended (see :class:`cacr.training.pretrain.Outcome`).
    """
    console = CleanConsole()
    console.print(
        "Pretraining without labels on handwritten digits, made unbalanced: few zeros, many nines.\n"
    )
    outcome = pretrain(recipe=RECIPE, out=out, resume=True)
    if outcome.status == "interrupted":
        console.print(f"continue the demo with: {shell_words('cacr', 'demo', '--out', out)}", soft_wrap=True)
        return outcome.status
    console.print(
        "\nEvaluating on new digits, compared with the same encoder untrained and with raw pixels ..."
    )
    results: list[Result] = []
    for labels in (LABELS_PER_CLASS, None):
        results += evaluate(run=out, data="digits", labels_per_class=labels)
    console.print(results_table(results))
    meaning = headline_of(results)
    assert meaning is not None  # the encoder was measured
    console.print(f"{meaning.title} {meaning.text}\nreport: {out / 'report.html'}")
    for line in next_lines(Run.open(out)):
        console.print(line, soft_wrap=True)
    return outcome.status
