"""Run the tutorials and put what they print on their pages.

    make tutorials DATA=FOLDER                                # all of them
    python docs/tutorials/run.py just-the-loss                # one that needs no data

A tutorial is a page whose bash and Python blocks run from top to bottom, in a folder of their own where the folders of
``--data`` are at hand. The ``text`` block after a code block becomes what the code printed, without names of folders of
the machine. A picture that the page shows as ``pictures/NAME`` is copied from the NAME that the code wrote.
"""

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BLOCK = re.compile(
    r"^```(?P<language>bash|python)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r"\]\(pictures/([\w.-]+)\)")
LINES = 14, 26
"""Of a long output: so many lines from its beginning and from its end are shown."""


def main() -> int:
    """Run the pages that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help="pages without .md (default: all)")
    parser.add_argument(
        "--data", type=Path, help="folder whose sub-folders the tutorials use: pets, caltech101, flickr-mini"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/tutorials"), help="where they run")
    options = parser.parse_args()
    names = options.names or sorted(page.stem for page in HERE.glob("*.md") if page.stem != "index")
    for name in names:
        started = time.monotonic()
        run_page(HERE / f"{name}.md", options.work / name, options.data)
        print(f"{name}: {(time.monotonic() - started) / 60:.1f} min", flush=True)
    return 0


def run_page(page: Path, work: Path, data: Path | None = None) -> None:
    """Run the blocks of a page in an empty folder, and write their output to the page once all have succeeded.

    Raises:
        RuntimeError: a block failed; the message has the block and its output.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shown: dict[Path, str] = {}
    for folder in data.resolve().iterdir() if data else ():
        (work / folder.name).symlink_to(folder)
        shown |= dict.fromkeys((folder, folder.resolve()), f"{folder.name}/")
    shown |= {work.resolve(): "", Path(sys.prefix): ".venv/", Path.home(): "~/"}
    names: dict[str, Any] = {"__name__": "__main__"}

    def run(block: re.Match[str]) -> str:
        printed = without_folders(run_block(block["language"], block["code"], work, names), shown)
        code = f"```{block['language']}\n{block['code']}```\n"
        return code if block["output"] is None else f"{code}\n```text\n{shortened(printed)}```\n"

    text = BLOCK.sub(run, page.read_text(encoding="utf-8"))
    for picture in PICTURE.findall(text):
        (page.parent / "pictures").mkdir(exist_ok=True)
        shutil.copyfile(work / picture, page.parent / "pictures" / picture)
    page.write_text(text, encoding="utf-8")


def run_block(language: str, code: str, work: Path, names: dict[str, Any]) -> str:
    """What a block prints. Python blocks of a page share ``names``; bash blocks share the folder only."""
    print(f"--- {code.strip().splitlines()[0]}", file=sys.stderr, flush=True)
    if language == "python":
        printed = io.StringIO()
        with contextlib.chdir(work), contextlib.redirect_stdout(printed):
            exec(compile(code, "<tutorial>", "exec"), names)
        return printed.getvalue()
    own = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{own}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode} of:\n{code}\n{done.stdout}")
    return done.stdout


def without_folders(printed: str, names: Mapping[Path, str]) -> str:
    """An output as it is on any machine: instead of each of these folders its name is shown."""
    for folder, name in names.items():
        printed = printed.replace(f"{folder}/", name)
    return printed


def shortened(printed: str) -> str:
    """The beginning and the end of an output, without spaces at the ends of lines."""
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    first, last = LINES
    if len(lines) > first + last + 1:
        lines[first:-last] = ["..."]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
