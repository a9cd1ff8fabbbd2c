"""What holds for every protocol there is; a newly registered one is covered without a change here."""

import shutil
from pathlib import Path

import pytest

from cacr.evaluation import PROTOCOLS, evaluate_run, read_results
from cacr.evaluation.registry import ASK_WORDS, ProtocolSettings, settings_of
from tests.data.annotating import coco_set
from tests.evaluation.conftest import write_images

pytestmark = pytest.mark.trains

SHORT = {
    "epochs": 1,
    "final_epochs": 1,
    "min_steps": 1,
    "search": "quick",
    "draws": 2,
    "restarts": 2,
    "batch_size": 16,
    "steps": 1,
    "sizes": (32,),
    "test_size": 32,
    "proposals": 4,
    "precise": 0,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 6), ("test", 3)):
        write_images(folder / part, per_class=count, seed=count)
        coco_set(folder / "shapes" / part, count, size=32)
    return folder


@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_it_gives_the_same_share_twice_and_stores_it(
    name: str, run: Path, data: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source, needs = str(data), settings_of(name).needs
    if needs in ("boxes", "masks"):
        source = f"coco:{data / 'shapes'}"
    if needs in ASK_WORDS:  # an encoder that knows words, on images with names or captions
        run = Path(shutil.copytree(request.getfixturevalue("captioned"), tmp_path / "run"))
        shapes = request.getfixturevalue("shapes")
        source = f"pairs:{shapes}/train.jsonl" if needs == "captions" else str(shapes / "sorted")
    short = {key: value for key, value in SHORT.items() if key in settings_of(name).model_fields}
    values = {"data": source, "protocol": (name,), "workers": 0, "options": short, "baselines": ()}
    (first,), (second,) = (evaluate_run(run, values) for _ in range(2))
    assert first == second and read_results(run / "evaluation") == [first]
    assert all(0 <= value <= 1 for value in (first.score, *first.also.values()))
    assert first.protocol == name and first.settings == settings_of(name)(**short).model_dump(mode="json")


@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_its_file_has_its_name_and_its_settings_explain_themselves(name: str) -> None:
    kind = settings_of(name)
    assert issubclass(kind, ProtocolSettings) and PROTOCOLS.summaries()[name]
    assert all(field.description for field in kind.model_fields.values())
    kind()  # every setting has a default
    assert PROTOCOLS[name].__module__ == f"cacr.evaluation.protocols.{name.replace('-', '_')}"
