"""The package as it is installed: public names, quick import, a wheel that works alone."""

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import cacr

ROOT = Path(__file__).parents[1]


def test_public_names_can_be_imported() -> None:
    for name in cacr.__all__:
        assert callable(getattr(cacr, name))
    assert [name for name in dir(cacr) if not name.startswith("_")] == sorted(cacr.__all__)
    with pytest.raises(AttributeError, match="pretrian"):
        cacr.pretrian  # noqa: B018


def test_import_and_help_do_not_load_torch() -> None:
    script = (
        "import sys, cacr, cacr.cli; from typer.main import get_command; get_command(cacr.cli.app);"
        "print([name for name in ('torch', 'numpy', 'timm', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert output.strip() == "[]"


def test_a_training_process_starts_without_packages_it_does_not_use(tmp_path: Path) -> None:
    """Fabric imports torchmetrics for its version, which would import the others; here its version is enough."""
    (tmp_path / "torchmetrics").mkdir()
    (tmp_path / "torchmetrics" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "torchmetrics-1.9.dist-info").mkdir()
    (tmp_path / "torchmetrics-1.9.dist-info" / "METADATA").write_text("Name: torchmetrics\nVersion: 1.9\n")
    names = ("torchmetrics", "torchvision", "transformers", "timm", "sklearn", "scipy", "matplotlib")
    script = (
        "import sys, cacr.training.pretrain; from lightning_fabric.utilities import imports;"
        f"print([name for name in {names} if name in sys.modules], imports._TORCHMETRICS_GREATER_EQUAL_1_0_0)"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[] True"


@pytest.mark.slow
def test_the_wheel_runs_the_demo_outside_the_checkout(tmp_path: Path) -> None:
    """Built, installed without the checkout beside the dependencies of this environment, and run."""
    built = tmp_path / "dist"
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", built, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    check = [sys.executable, "-m", "twine", "check", "--strict", wheel, archive]
    assert subprocess.run(check, check=False, capture_output=True).returncode == 0
    target = tmp_path / "env"
    venv.create(target, with_pip=True)
    (own,) = target.glob("lib/python*/site-packages")
    # A folder that a .pth file names is searched, but its own .pth files are not read: the checkout stays unknown.
    (own / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [target / "bin" / command[0], *command[1:]],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    assert str(own) in run("python", "-c", "import cacr; print(cacr.__file__)")
    assert "report:" in run("cacr", "demo", "--out", tmp_path / "demo")
    assert (tmp_path / "demo" / "report.html").exists()
    assert "end_to_end" in run("cacr", "bench")
