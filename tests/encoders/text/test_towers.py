"""Text towers: what they make of sentences is what their own libraries make of them."""

import json
from pathlib import Path

import pytest
import torch

from cacr.encoders.text import KeptCaptions, build_tower
from cacr.encoders.text.folder_tower import POOLING, FolderTower
from cacr.errors import UserError
from tests.encoders.text.making import save_bert

SENTENCES = ["a photo of a red disc", "the dog", "a cat in the snow"]


def test_the_tower_of_clip_reads_as_open_clip_does() -> None:
    import open_clip

    tower = build_tower("clip", width=64, layers=2, context=12)
    assert torch.equal(tower.tokenise(SENTENCES).values, open_clip.SimpleTokenizer()(SENTENCES, 12))
    assert tower.encode(SENTENCES).shape == (3, 64)


def test_a_folder_gives_the_mean_of_its_tokens(tmp_path: Path) -> None:
    model = save_bert(tmp_path)
    tower = FolderTower(tmp_path)
    found = tower.encode(SENTENCES)
    for row, sentence in zip(found, SENTENCES, strict=True):
        (ids,) = tower.tokenise([sentence]).values  # without padding
        with torch.no_grad():
            hidden = model(input_ids=ids[None]).last_hidden_state[0]
        torch.testing.assert_close(row, hidden.mean(0), rtol=1e-4, atol=1e-5)


def test_a_folder_that_says_so_gives_the_first_token(tmp_path: Path) -> None:
    model = save_bert(tmp_path)
    (tmp_path / POOLING).parent.mkdir()
    (tmp_path / POOLING).write_text(json.dumps({"pooling_mode_cls_token": True}))
    tower = FolderTower(tmp_path)
    (ids,) = tower.tokenise(SENTENCES[:1]).values
    with torch.no_grad():
        hidden = model(input_ids=ids[None]).last_hidden_state[0]
    torch.testing.assert_close(tower.encode(SENTENCES[:1])[0], hidden[0], rtol=1e-4, atol=1e-5)


def test_a_saved_folder_is_the_same_tower(tmp_path: Path) -> None:
    save_bert(tmp_path / "first")
    first = FolderTower(tmp_path / "first")
    first.save(tmp_path / "second")
    assert torch.equal(FolderTower(tmp_path / "second").encode(SENTENCES), first.encode(SENTENCES))


@pytest.mark.parametrize("name", ["clip", "folder"])
def test_what_is_too_long_is_cut_and_counted(name: str, tmp_path: Path) -> None:
    save_bert(tmp_path)
    tower = build_tower(name if name == "clip" else str(tmp_path), width=32, layers=1, context=6)
    tokens = tower.tokenise(["a dog", "a dog in the snow of a cat", "the red dog"])
    assert tokens.cut == 1 and tokens.values.shape[1] <= 6
    assert build_tower(str(tmp_path), context=77).context == 11  # what the positions of the folder allow


def test_kept_captions_are_those_of_the_tower_whatever_the_order(tmp_path: Path) -> None:
    save_bert(tmp_path)
    tower = FolderTower(tmp_path)
    kept, again = KeptCaptions(tower, SENTENCES * 2), KeptCaptions(tower, reversed(SENTENCES))
    assert len(kept) == 3
    assert torch.equal(kept(SENTENCES), again(SENTENCES))
    torch.testing.assert_close(kept(SENTENCES), tower.encode(SENTENCES), rtol=1e-4, atol=1e-5)
    assert kept(["the blue square"]).shape == (1, tower.dim)  # one that is not kept


def _remove(*names: str) -> object:
    return lambda folder: [(folder / name).unlink() for name in names]


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def _other_sizes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 32}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove("tokenizer.json"), "has no tokenizer.json"),
        (_remove("config.json", "tokenizer.json"), "has no config.json and no tokenizer.json"),
        (_pickled, "as a pickle"),
        (_other_sizes, "does not fit"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "is damaged"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "clip"}'), "a whole CLIP"),
        (
            lambda folder: (folder / "config.json").write_text('{"model_type": "nothing"}'),
            "does not describe",
        ),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "not a readable safetensors"),
    ],
)
def test_a_folder_that_is_no_text_encoder_is_refused_with_a_reason(
    change: object, message: str, tmp_path: Path
) -> None:
    save_bert(tmp_path)
    change(tmp_path)  # type: ignore[operator]
    with pytest.raises(UserError, match=message):
        FolderTower(tmp_path)


def test_a_folder_that_is_not_there_is_told() -> None:
    with pytest.raises(UserError, match="there is no folder"):
        build_tower("no/such/folder")
