"""A run does each thing once."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from cacr.config import PretrainSettings
from cacr.training import pretrain as story
from cacr.training.building import data
from cacr.training.cost import place
from cacr.training.pretrain import pretrain
from cacr.training.settings.resolve import resolve
from tests.conftest import TINY


@pytest.mark.trains
@pytest.mark.parametrize("resume", [False, True])
def test_data_is_opened_and_settings_are_resolved_once(
    resume: bool, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Any] = {**TINY, "data": str(classes), "epochs": 2}
    if resume:
        pretrain({**values, "epochs": 1}, tmp_path / "run")
    calls: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    for name in ("open_source", "prepare", "describe"):
        count(data, name)
    count(place, "resolve")
    for name in ("load_latest", "build_training"):
        count(story, name)
    pretrain(values, tmp_path / "run", resume=resume)
    assert calls == Counter(
        open_source=1, prepare=1, describe=1, resolve=1, build_training=1, load_latest=resume
    )


def test_resolved_settings_hold_no_auto_but_two_that_are_decided_at_every_start(photos: Path) -> None:
    asked = PretrainSettings(data=str(photos))
    found = resolve(asked, data.describe_images(asked), world_size=1, device=torch.device("cpu"))
    assert [name for name, value in found if value == "auto"] == ["accelerator", "checkpoint_every_steps"]
