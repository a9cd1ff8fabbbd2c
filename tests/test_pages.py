"""Every page of the docs: its commands exist with their options and settings, and its links lead somewhere."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from cacr import cli
from cacr.config import EvaluateSettings, PretrainSettings
from cacr.evaluation import PROTOCOLS, settings_of
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES
from cacr.methods import METHODS
from cacr.training.settings.check import VIEW_OPTIONS, objective_option_names
from cacr.training.settings.recipes import RECIPES

ROOT = Path(__file__).parents[1]
PAGES = [
    page.relative_to(ROOT)
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if not {"_build", "modules"} & set(page.relative_to(ROOT).parts)
]
COMMANDS: dict[str, typer.core.TyperCommand] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
EXAMPLES = {"dcl"}
"""Methods that pages show how to add."""

ENDS = {"|", ">", "2>&1", "&&", "&", "<", ";"}
"""Words of a shell after which a command is over."""

TRAINING = {
    *PretrainSettings.model_fields,
    *VIEW_OPTIONS,
    *(option for framework in FRAMEWORKS for option in FRAMEWORKS[framework].option_names()),
    *(option for objective in OBJECTIVES for option in objective_option_names(objective)),
}
PROTOCOL_SETTINGS = {name: set(settings_of(name).named()) for name in PROTOCOLS}
EVALUATION = {*EvaluateSettings.named(), *set().union(*PROTOCOL_SETTINGS.values())}


def _commands(text: str) -> Iterator[str]:
    """Lines that begin with ``cacr`` in blocks of code, and such code in sentences."""
    text = re.sub(r"\\\n\s*", " ", text)
    for block in re.findall(r"```(?:bash|console)\n(.*?)```", text, re.DOTALL):
        yield from re.findall(r"^(?:\$ )?(cacr .*)$", block, re.MULTILINE)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from re.findall(r"^ {4,}(cacr .*)$", text, re.MULTILINE)
    yield from (code.replace("\n", " ") for code in re.findall(r"(?<!`)`(cacr [^`]+)`(?!`)", text))


def _words(line: str) -> list[str]:
    """The name of the command and its arguments."""
    _, *words = shlex.split(line, comments=True)
    return list(takewhile(lambda word: word not in ENDS, words))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_have_options_and_settings_that_exist(page: Path) -> None:
    for line in _commands((ROOT / page).read_text(encoding="utf-8")):
        name, *arguments = _words(line)
        if name.startswith(("-", ".")) or name.isupper():  # cacr --help, cacr ..., cacr COMMAND
            continue
        assert name in COMMANDS, line
        command = COMMANDS[name]
        flags = {
            flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)
        }
        flags |= {"--help", "-h", "--debug"}
        given = [argument.split("=", 1)[0] for argument in arguments if re.match(r"-\w|--\w", argument)]
        if name != "bench":  # hands its arguments on
            assert set(given) <= flags, line
        for place, argument in enumerate(arguments[:-1]):
            if argument == "--set":
                _check_setting(name, arguments[place + 1].split("=", 1)[0], line)
            if argument == "--method" and not arguments[place + 1].isupper():
                assert arguments[place + 1] in {*METHODS, *EXAMPLES}, line
            if argument == "--recipe" and not arguments[place + 1].isupper():
                assert arguments[place + 1] in RECIPES, line
            if argument == "--protocol" and not arguments[place + 1].isupper():
                assert set(arguments[place + 1].split(",")) <= {*PROTOCOLS, "..."}, line


def _check_setting(command: str, setting: str, line: str) -> None:
    if setting.isupper() or setting in ("name", "..."):
        return
    protocol, _, own = setting.rpartition(".")
    if protocol:
        assert own in PROTOCOL_SETTINGS[protocol], line
    elif command == "evaluate":
        assert setting in EVALUATION, line
    else:
        assert setting in TRAINING, line


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)\s]+))?\)", text):
        found = (ROOT / page).parent / target
        assert found.exists() or "reference/modules" in target, f"{page} links to {target}"
        if anchor and found.suffix == ".md":
            assert anchor in _anchors(found), f"{page} links to {target}#{anchor}"
    for anchor in re.findall(r"\]\(#([^)\s]+)\)", text):
        assert anchor in _anchors(ROOT / page), f"{page} links to #{anchor}"


def _anchors(page: Path) -> set[str]:
    """As GitHub and the site make them of headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_python_on_the_page_for_newcomers_runs() -> None:
    """Numbers that the page says are equal to those of other packages are."""
    text = (ROOT / "docs/how-to/coming-from.md").read_text(encoding="utf-8")
    pytest.importorskip("lightly.loss")
    pytest.importorskip("pytorch_metric_learning.losses")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "coming-from.md", "exec"), {})


def test_settings_on_the_page_for_newcomers_exist() -> None:
    text = (ROOT / "docs/how-to/coming-from.md").read_text(encoding="utf-8")
    cells = [row.split("|")[2] for row in re.findall(r"^\|.*\|$", text, re.MULTILINE)]
    named = {name for cell in cells for name in re.findall(r"`([a-z_]+)(?:=[^`]*)?`", cell)}
    assert len(named) > 30
    assert not named - TRAINING - {"torchrun", "resume"}
