"""What to do with a run next: a command that fits its state."""

from typing import NamedTuple

from cacr.config import ResolvedSettings
from cacr.data import SOURCES
from cacr.encoders import timm_arguments
from cacr.reporting.headline import outcome
from cacr.runs.run import Run
from cacr.shell import resume_command, shell_words

FAILED = ("collapsed to a point", "dimensional collapse", "not learning", "diverging")
"""Verdicts after which going on is no use."""


class NextStep(NamedTuple):
    """What to do, and the command that does it."""

    words: str
    command: str


def next_step(run: Run) -> NextStep:
    """The next thing to do: mend it, go on, evaluate, train longer, or use the encoder."""
    verdict = run.verdict.verdict if run.verdict else None
    if verdict in FAILED:
        config, other = run.folder.config, run.path.with_name(f"{run.path.name}-2")
        command = shell_words("cacr", "pretrain", "--config", config, "--out", other)
        return NextStep("Start again with a change that is proposed above:", command)
    if not run.digest or (run.has_encoder and run.training.finished is False):
        return NextStep("The run has not come to its end. Go on:", resume_command(run.path))
    compared = outcome(run)
    if compared is None:
        return _evaluate(run)
    if compared == "better":
        out = run.path.with_name(f"{run.path.name}.safetensors")
        kind = "torch" if timm_arguments(run.info) is None else "timm"
        command = _command(run, "export", "--to", kind, "--out", out)
        return NextStep("Use the encoder in other software:", command)
    return NextStep("Train longer:", resume_command(run.path, *_longer(run.settings)))


def _evaluate(run: Run) -> NextStep:
    """Measure it where there are labels; elsewhere look at what it finds alike."""
    if run.results:
        last = run.results[-1]
        protocols = dict.fromkeys(r.protocol for r in run.results if r.data == last.data)
        test = ("--test-data", last.test_data) if last.test_data != last.data else ()
        words = "--data", last.data, *test, *_root(run, last.data), "--protocol", ",".join(protocols)
        return NextStep("Measure baselines beside it:", _command(run, "evaluate", *words))
    data = run.settings.data
    if run.points("knn"):
        command = _command(run, "evaluate", "--data", data, *_root(run, data))
        return NextStep("Measure how good its features are, beside baselines:", command)
    command = _command(run, "search", 0, "--data", data, *_root(run, data))
    return NextStep(
        "See which images it finds alike; here for the first one, or name an image file:", command
    )


def _command(run: Run, name: str, *words: object) -> str:
    return shell_words("cacr", name, run.path, *words)


def _root(run: Run, data: str) -> tuple[object, ...]:
    """Where named data sets lie, for data that is one."""
    return ("--data-root", run.settings.data_root) if data.partition(":")[0] in SOURCES else ()


def _longer(settings: ResolvedSettings) -> tuple[str, ...]:
    """Options that make a run twice as long."""
    if settings.max_steps:
        return "--set", f"max_steps={2 * settings.max_steps}"
    return "--epochs", str(2 * settings.epochs)
