"""What an encoder is compared with: the very weights that its run started from."""

from pathlib import Path

import pytest
import timm
import torch

from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.evaluation.evaluate import evaluate_run
from cacr.training.pretrain import pretrain
from tests.conftest import TINY
from tests.encoders.text.making import save_hugging_face_clip
from tests.evaluation.conftest import write_images

pytestmark = pytest.mark.trains

KNN = {"protocol": ("knn",), "k": 3, "workers": 0}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), per_class=12, seed=0)


@pytest.fixture(scope="module")
def scratch(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "scratch"
    pretrain({**TINY, "data": str(images), "epochs": 2, "held_out": 0}, out)
    return out


@pytest.fixture(scope="module")
def continued(images: Path, scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "continued"
    pretrain({**TINY, "data": str(images), "epochs": 1, "held_out": 0, "init": str(scratch)}, out)
    return out


def _scores(run: Path, images: Path, **values: object) -> dict[str, float]:
    return {r.subject: r.score for r in evaluate_run(run, {"data": str(images), **KNN, **values})}


def test_by_default_a_run_is_beside_its_own_start_and_pixels(scratch: Path, images: Path) -> None:
    found = _scores(scratch, images)
    assert list(found) == ["encoder", "untrained", "pixels"]
    assert found["untrained"] == _scores(scratch / "start", images, baselines=())["encoder"]


def test_a_run_that_continues_another_is_beside_what_it_started_from(
    continued: Path, scratch: Path, images: Path
) -> None:
    found = _scores(continued, images)
    assert list(found) == ["encoder", "start", "untrained", "pixels"]
    ends, begins = (load_encoder(folder).backbone.state_dict() for folder in (scratch, continued / "start"))
    assert all(torch.equal(ends[name], begins[name]) for name in ends)


def test_protocols_that_train_have_no_baselines_by_default(scratch: Path, images: Path) -> None:
    values = {"data": str(images), "protocol": ("linear-paper",), "epochs": 1, "workers": 0}
    assert [r.subject for r in evaluate_run(scratch, values)] == ["encoder"]


def test_a_bare_file_has_no_start(scratch: Path, images: Path, tmp_path: Path) -> None:
    for suffix in (".safetensors", ".json"):
        (tmp_path / f"copy{suffix}").write_bytes((scratch / f"encoder{suffix}").read_bytes())
    with pytest.raises(UserError, match="leave out the baseline start"):
        _scores(tmp_path / "copy.safetensors", images, baselines=("start",))
    found = evaluate_run(tmp_path / "copy.safetensors", {"data": str(images), **KNN})
    assert [result.subject for result in found] == ["encoder", "untrained", "pixels"]
    assert [any("new random weights" in note for note in result.notes) for result in found] == [
        False,
        True,
        False,
    ]
    assert not any(
        "new random" in note for r in evaluate_run(scratch, {"data": str(images), **KNN}) for note in r.notes
    )


def test_any_encoder_can_be_a_baseline(scratch: Path, images: Path, tmp_path: Path) -> None:
    """It is measured as it is by itself; a name that is neither is told with those that there are."""
    torch.manual_seed(0)
    torch.save(timm.create_model("mobilenetv3_small_050").state_dict(), tmp_path / "other.pth")
    text = f"timm:mobilenetv3_small_050@{tmp_path / 'other.pth'}"
    found = _scores(scratch, images, baselines=("start", text, str(scratch / "start")))
    assert list(found) == ["encoder", "start", "other", "other-start"]
    assert found["other"] == _scores(Path(text), images, baselines=())["encoder"]
    assert found["other-start"] == found["start"]
    with pytest.raises(UserError, match="did you mean untrained"):
        _scores(scratch, images, baselines=("untraned",))


def test_a_finished_clip_has_no_untrained_twin(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the results of weights in no file of ours go
    save_hugging_face_clip(tmp_path / "clip")
    assert list(_scores(tmp_path / "clip", images)) == ["encoder", "pixels"]
