"""Run the tests that train once for each way in which a processor may add up: `make test-portable`.

    python tests/portable.py                          # all factors, one after the other
    python tests/portable.py busy ATEN_CPU_CAPABILITY # some: by their names, or by how these begin

A factor is an environment variable that decides about instructions or threads, or that every core is busy. What the
processor lacks is left out. What torch, oneDNN and MKL say is in effect is printed before each run.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
NEEDS: dict[str, dict[str, frozenset[str]]] = {
    "ATEN_CPU_CAPABILITY": {"default": frozenset(), "avx2": frozenset({"avx2"}), "avx512": AVX512},
    "ONEDNN_MAX_CPU_ISA": {
        "SSE41": frozenset({"sse4_1"}),
        "AVX2": frozenset({"avx2"}),
        "AVX512_CORE": AVX512,
    },
    "MKL_ENABLE_INSTRUCTIONS": {"SSE4_2": frozenset({"sse4_2"}), "AVX2": frozenset({"avx2"})},
    "OMP_NUM_THREADS": {"1": frozenset(), "2": frozenset()},
}
"""Variable -> value -> the flags of a processor that can do it."""

BUSY = "busy"

PROBE = """
import json, torch
torch.nn.functional.conv2d(torch.randn(4, 16, 32, 32), torch.randn(16, 16, 3, 3))
torch.randn(64, 64) @ torch.randn(64, 64)
print(json.dumps({"aten": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}))
"""


class Factor(NamedTuple):
    """One thing that is different in a run of the tests."""

    name: str
    environment: dict[str, str]
    needs: frozenset[str] = frozenset()


class Counts(NamedTuple):
    """How the tests of a run ended."""

    passed: int
    failed: int
    skipped: int


def factors() -> list[Factor]:
    """All of them, the busy machine last."""
    made = [
        Factor(f"{variable}={value}", {variable: value}, needs)
        for variable, values in NEEDS.items()
        for value, needs in values.items()
    ]
    return [*made, Factor(BUSY, {})]


def chosen(names: Sequence[str]) -> list[Factor]:
    """Those whose names begin with one of ``names``; all without any."""
    every = factors()
    for name in names:
        if not any(factor.name.startswith(name) for factor in every):
            known = ", ".join(factor.name for factor in every)
            sys.exit(f"no factor begins with {name!r}; known: {known}")
    return [factor for factor in every if not names or factor.name.startswith(tuple(names))]


def processor_flags() -> set[str]:
    """What the processor can do, as Linux names it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def in_effect(environment: dict[str, str]) -> str:
    """What a fresh process computes with, by the libraries' own words."""
    verbose = {**environment, "ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}
    command = [sys.executable, "-c", PROBE]
    text = subprocess.run(command, env=verbose, check=True, capture_output=True, text=True).stdout
    found = json.loads(text.splitlines()[-1])
    onednn = re.search(r"^(?:one)?dnnl?_verbose.*?,cpu,isa:(.+)$", text, re.MULTILINE)
    mkl = re.search(r"^MKL_VERBOSE .*? architecture (.+?) processors,", text, re.MULTILINE)
    parts = {
        "torch": found["aten"],
        "oneDNN": onednn[1] if onednn else "cannot tell",
        "MKL": mkl[1] if mkl else "cannot tell",
        "threads": found["threads"],
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items())


@contextmanager
def busy_cores(wanted: bool) -> Iterator[None]:
    """Keep every core busy with a process of its own meanwhile, where that is wanted."""
    count = (os.cpu_count() or 1) if wanted else 0
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run_tests(environment: dict[str, str], arguments: Sequence[str]) -> Counts:
    """The marked tests, one process per core; a run that ends early counts as failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal"]
        command += ["-m", "trains and not slow", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if not report.exists():
            return Counts(0, 1, 0)
        suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return Counts(total - failed - skipped, max(failed, int(code != 0)), skipped)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("factors", nargs="*", help="names of factors, or how they begin; all without any")
    parser.add_argument("--pytest", default="", help="further arguments of pytest, in one string")
    options = parser.parse_args()
    flags, rows = processor_flags(), []
    for factor in chosen(options.factors):
        if lacks := sorted(factor.needs - flags):
            rows.append((factor.name, f"left out: the processor lacks {', '.join(lacks)}", ""))
            print(f"== {factor.name}: left out, the processor lacks {', '.join(lacks)}", flush=True)
            continue
        environment = {**os.environ, **factor.environment}
        # as in the workers of the tests, unless the factor says otherwise
        effect = in_effect({"OMP_NUM_THREADS": "1", **environment})
        print(f"== {factor.name}: {effect}", flush=True)
        with busy_cores(factor.name == BUSY):
            counts = run_tests(environment, options.pytest.split())
        result = f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
        rows.append((factor.name, result, effect))
    width = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, result, effect in rows:
        print(f"{name:{width[0]}}  {result:{width[1]}}  {effect}".rstrip())
    return int(any(", 0 failed" not in result for _, result, _ in rows if not result.startswith("left out")))


if __name__ == "__main__":
    sys.exit(main())
