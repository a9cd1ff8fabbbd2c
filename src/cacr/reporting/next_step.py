"""Suggest what to do next with a run: a command that fits its state."""

from pathlib import Path
from typing import NamedTuple

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data import SOURCES
from cacr.encoders import is_fetched, locate, timm_arguments
from cacr.evaluation.guest import Guest, is_guest
from cacr.reporting.captions import reads_captions
from cacr.reporting.headline import outcome
from cacr.runs.folder import RunFolder
from cacr.runs.result import Result
from cacr.runs.run import Run
from cacr.shell import resume_command, shell_words

FAILED = (
    "collapsed to a point",
    "dimensional collapse",
    "shrinking",
    "diverging",
    "not learning",
    "no better than before training",
    "worse than before training",
)
"""Verdicts after which continuing the run does not help."""


class NextStep(NamedTuple):
    """What to do, and the command that does it."""

    words: str
    command: str


def next_step(run: Run) -> NextStep:
    """The next thing to do: fix it, continue, evaluate, train longer, or use the encoder."""
    verdict = run.verdict.verdict if run.verdict else None
    if verdict == "worse than before training" and run.settings.init is not None:
        return _as_they_came(run, run.settings.init)
    if verdict in FAILED:
        config, other = run.folder.config, run.path.with_name(f"{run.path.name}-2")
        command = shell_words("cacr", "pretrain", "--config", config, "--out", other)
        return NextStep("Start again, and add one of the changes suggested above to this command:", command)
    if not run.digest or (run.has_encoder and run.training.finished is False):
        return NextStep("The run is not finished. Continue:", resume_command(run.path))
    compared = outcome(run)
    if compared is None:
        return _evaluate(run)
    if compared == "worse" and run.settings.init is not None:
        return _as_they_came(run, run.settings.init)
    if compared == "better" and reads_captions(run.settings.framework):
        out = run.path.with_name(f"{run.path.name}.onnx")
        return NextStep(
            "Use image and text encoder in other software:",
            _command(run, "export", "--to", "onnx", "--out", out),
        )
    if compared == "better":
        out = run.path.with_name(f"{run.path.name}.safetensors")
        kind = "torch" if timm_arguments(run.info) is None else "timm"
        command = _command(run, "export", "--to", kind, "--out", out)
        return NextStep("Use the encoder in other software:", command)
    words = "Train longer:" if run.settings.init is None else "Use the initial weights, or train longer:"
    return NextStep(words, resume_command(run.path, *_longer(run.settings)))


def _as_they_came(run: Run, init: str) -> NextStep:
    """Suggest the initial weights instead, if the training made them worse."""
    data = run.settings.data
    command = shell_words(
        "cacr", "group", init, data, *_root(run, data), *_fetched(init), "--out", "groups.csv"
    )
    return NextStep(
        "On these images the initial weights are better than the trained ones. Use them:", command
    )


def guest_step(guest: Guest) -> NextStep:
    """The next thing to do with an encoder that no run trained: measure it, continue from it, or search by words."""
    fetched = _fetched(guest.text)
    if locate(guest.text).kind in ("clip", "openclip"):
        command = shell_words(
            "cacr", "search", guest.text, "two dogs in the snow", "--data", "DATA", *fetched
        )
        return NextStep("Search your images by words:", command)
    if not guest.results:
        command = shell_words("cacr", "evaluate", guest.text, "--data", "DATA", *fetched)
        return NextStep("Measure how good its features are on labelled images:", command)
    last = guest.results[-1]
    words = last.data, "--init", guest.text, *_place_of(last), *fetched, "--out", f"runs/{guest.name}"
    return NextStep(
        "Continue training on your own images, and see whether that helps:",
        shell_words("cacr", "pretrain", *words),
    )


def guest_lines(guest: Guest) -> list[str]:
    """The same as lines to print; if its images are known, also a command that uses it."""
    first = guest_step(guest)
    lines = [f"what next? {first.words} {first.command}"]
    if guest.results:
        last = guest.results[-1]
        words = guest.text, last.data, *_place_of(last), *_fetched(guest.text), "--out", "groups.csv"
        lines.append(f"or group your images with it: {shell_words('cacr', 'group', *words)}")
    return lines


def next_lines(run: Run) -> list[str]:
    """Lines to print: the next step, and a command that uses the encoder if it is healthy."""
    first = next_step(run)
    lines = [f"what next? {first.words} {first.command}"]
    verdict = run.verdict.verdict if run.verdict else None
    if run.digest and verdict not in FAILED:
        data = run.settings.data
        if reads_captions(run.settings.framework):
            command = _command(run, "search", "two dogs in the snow", "--data", data, *_root(run, data))
            lines.append(f"or search by words: {command}")
        command = _command(run, "group", data, *_root(run, data), "--out", "groups.csv")
        lines.append(f"or group your images with it: {command}")
    return lines


def next_after(text: Path) -> list[str]:
    """The same for the name of a run, or of an encoder that no run trained."""
    if is_guest(text):
        return guest_lines(Guest.visit(text))
    return next_lines(Run.open(text)) if RunFolder(text).holds_run else []


def _evaluate(run: Run) -> NextStep:
    """Measure it if there are labels; otherwise show which images it finds similar."""
    if run.results:
        last = run.results[-1]
        protocols = dict.fromkeys(r.protocol for r in run.results if r.data == last.data)
        test = ("--test-data", last.test_data) if last.test_data != last.data else ()
        words = (
            "--data",
            last.data,
            *test,
            *(_place_of(last) or _root(run, last.data)),
            "--protocol",
            ",".join(protocols),
        )
        return NextStep("Compare it with baselines:", _command(run, "evaluate", *words))
    data = run.settings.data
    if run.points("knn"):
        command = _command(run, "evaluate", "--data", data, *_root(run, data))
        return NextStep("Measure how good its features are, compared with baselines:", command)
    if reads_captions(run.settings.framework) and not data.startswith("wds:"):
        command = _command(run, "evaluate", "--data", data, *_root(run, data), "--protocol", "captions")
        return NextStep("Measure how often images and captions find each other:", command)
    command = _command(run, "search", 0, "--data", data, *_root(run, data))
    return NextStep(
        "See which images it finds similar, here to the first image; or give an image file:", command
    )


def _command(run: Run, name: str, *words: object) -> str:
    return shell_words("cacr", name, run.path, *words)


def _root(run: Run, data: str) -> tuple[object, ...]:
    """The option for the folder of named data sets, if it is needed and not the default."""
    root = run.settings.data_root
    elsewhere = root != PretrainSettings.model_fields["data_root"].default
    return ("--data-root", root) if elsewhere and data.partition(":")[0] in SOURCES else ()


def _place_of(result: Result) -> tuple[object, ...]:
    """Options with which another command finds the same data: its root, its lists."""
    data, lists = result.locations[:1], result.locations[2:]
    root = ("--data-root", *data) if data and result.data.partition(":")[0] in SOURCES else ()
    given = (
        part for each in lists for name, _, file in [each.partition(" ")] for part in (f"--{name}", file)
    )
    return (*root, *given)


def _fetched(encoder: str) -> tuple[str, ...]:
    """The option that allows downloading weights, if it is needed."""
    return ("--download",) if is_fetched(encoder) else ()


def _longer(settings: ResolvedSettings) -> tuple[str, ...]:
    """Options that make a run twice as long."""
    if settings.max_steps:
        return "--set", f"max_steps={2 * settings.max_steps}"
    return "--epochs", str(2 * settings.epochs)
