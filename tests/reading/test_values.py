"""Documents, arrays and tensors from outside: what is read, what is refused, and in which words."""

import math
import pickle
import re
import warnings
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import save_file

from cacr.data import ArraySource, imbalanced, open_source
from cacr.diagnostics.measures import online_knn
from cacr.encoders import build_encoder, load_encoder, save_encoder
from cacr.encoders.initial_weights import load_weights
from cacr.errors import UserError
from cacr.features.encode import encode
from cacr.reading import memory
from cacr.reading.arrays import read_npz
from cacr.reading.documents import parse_json, parse_yaml
from cacr.reading.foreign import foreign
from cacr.reading.memory import free_memory, require_memory, resident_memory
from cacr.reading.tensors import misfit, read_torch


def test_yaml_gives_plain_values_alone() -> None:
    text = "a: 1\nb: [0.5, yes, null]\nc: {d: 2020-01-01, e: '7'}\n"
    assert parse_yaml(text) == {"a": 1, "b": [0.5, True, None], "c": {"d": "2020-01-01", "e": "7"}}


@pytest.mark.parametrize(
    "text",
    [
        "0x_",
        "9" * 5000,
        "[" * 51 + "]" * 51,
        "&a [*a]",
        "!!python/name:os.system",
        "!!timestamp 2020",
        "!!bool x",
        "!!int ''",
        "? [a]\n: b",
        "a: b: c",
    ],
)
def test_yaml_that_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_yaml(text)


def test_json_names_every_wrong_field() -> None:
    kind = TypeAdapter(dict[str, int])
    assert parse_json('{"a": 1}', kind, "here") == {"a": 1}
    with pytest.raises(UserError, match=r"^here: a: .*integer; b: .*integer$"):
        parse_json('{"a": "1", "b": 2.5, "c": 3}', kind, "here")
    for text in ("[" * 9999, '{"a": ' + "9" * 5000 + "}", '{"a": NaN}', ""):
        with pytest.raises(UserError, match=r"^here: "):
            parse_json(text, kind, "here")


def test_whatever_a_library_raises_has_a_name() -> None:
    for error, told in (
        (KeyError("x"), "a.tar: 'x'"),
        (RecursionError(), "a.tar: RecursionError"),
        (MemoryError(), "a.tar: there is not enough memory"),
        (OSError(5, "Input/output error"), "a.tar: Input/output error"),
        (ValueError("one\ntwo"), "a.tar: one"),
    ):
        with pytest.raises(UserError) as caught, foreign("a.tar"):
            raise error
        assert str(caught.value) == told
    with pytest.raises(KeyboardInterrupt), foreign("a.tar"):
        raise KeyboardInterrupt


def _encrypted(path: Path) -> None:
    """Mark the only file of an archive as encrypted, in its own header and in the directory."""
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    path.write_bytes(content)


def test_archives_that_are_not_what_they_seem(tmp_path: Path) -> None:
    images = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "locked.npz", x=images)
    _encrypted(tmp_path / "locked.npz")
    np.save(tmp_path / "a.npy", images)
    (tmp_path / "a.npy").rename(tmp_path / "array.npz")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.npy", "no array")
    (tmp_path / "folder.npz").mkdir()
    for name, why in (
        ("locked", "encrypted"),
        ("array", "not a zip file"),
        ("text", "cannot be read as .npz"),
        ("folder", "is a folder"),
    ):
        with pytest.raises(UserError, match=why):
            open_source(str(tmp_path / f"{name}.npz"))


def test_an_archive_larger_than_memory_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1000, 4, 4, 3), dtype=np.uint8))
    monkeypatch.setattr(memory, "free_memory", lambda: 4000.0)
    with pytest.raises(
        UserError, match=r"a\.npz unpacked needs 0\.0 GB of memory, but only 0\.0 GB are free"
    ):
        read_npz(tmp_path / "a.npz", ("x",))


def _machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A system with 1 MB free, 300 kB of them held by this process, and these control groups."""
    for name, text in {
        "proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 1000 kB\n",
        "proc/self/status": "Name: x\nVmRSS: 300 kB\n",
        "proc/self/cgroup": groups,
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_memory_is_what_the_system_and_the_control_groups_leave(tmp_path: Path) -> None:
    assert 0 < free_memory() < 2**50 or free_memory() == math.inf
    assert resident_memory() > 2**20 or not Path("/proc/self/status").exists()
    nothing = tmp_path / "nothing"
    assert free_memory(nothing) == math.inf and resident_memory(nothing) == 0
    plain = _machine(tmp_path / "plain", "0::/a/b\n", {})
    assert free_memory(plain) == 1024_000 and resident_memory(plain) == 307_200
    second = _machine(
        tmp_path / "second",
        "0::/a/b\n",
        {
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": "600\n",
            "sys/fs/cgroup/a/memory.current": "300\n",
            "sys/fs/cgroup/a/memory.stat": "anon 10\ninactive_file 50\n",
        },
    )
    assert free_memory(second) == 600 - 300 + 50
    first = _machine(
        tmp_path / "first",
        "5:cpu:/x\n4:memory:/outside/name\n0::/\n",
        {
            "sys/fs/cgroup/memory/outside/name/memory.limit_in_bytes": f"{2**63 - 4096}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "900\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "500\n",
            "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 70\n",
        },
    )
    assert free_memory(first) == 900 - 500 + 70


def test_what_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 350.0)
    require_memory(350, "it")
    with pytest.raises(UserError, match=r"it needs .* are free; buy more"):
        require_memory(351, "it", "buy more")


def test_labels_without_a_class_are_refused() -> None:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    with pytest.raises(UserError, match="labels from 0 to 5, but names for 2 classes"):
        ArraySource("x", images, labels=[0, 5], class_names=["a", "b"])
    with pytest.raises(UserError, match="number the classes from 0"):
        ArraySource("x", images, labels=[-1, 0])


def test_numbers_of_classes_may_be_enormous() -> None:
    """Neither counting, nor an imbalance, nor the online kNN takes memory for the numbers between them."""
    labels = np.repeat([3, 10**15], 10)
    source = ArraySource("x", torch.zeros(20, 3, 4, 4, dtype=torch.uint8), labels=labels)
    assert source.class_counts() == {"3": 10, "1000000000000000": 10}
    assert imbalanced(source, "linear", 0)[0].class_counts() == {"3": 5, "1000000000000000": 10}
    assert online_knn(torch.from_numpy(labels == 3)[:, None].float() - 0.5, torch.from_numpy(labels)) == 1.0


def test_tensors_are_compared_before_they_are_loaded() -> None:
    expected = {"a": torch.zeros(2), "b": torch.zeros(3), "n": torch.zeros((), dtype=torch.long)}
    assert misfit(expected, {name: tensor.clone() for name, tensor in expected.items()}) == ""
    stored = {
        "a": torch.tensor([1.0, math.nan]),
        "c": torch.zeros(1),
        "n": torch.zeros(()),
        "b": torch.zeros(4),
    }
    assert misfit(expected, stored) == (
        "1 tensors are unknown, such as c; 1 tensors are of another shape, such as b; "
        "1 tensors are of another number type, such as n; 1 tensors are not finite, such as a"
    )


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    encoder = build_encoder("small_alexnet", image_size=32, width=0.02)
    save_encoder(tmp_path, encoder, encoder.info)
    state = encoder.backbone.state_dict()
    name = next(iter(state))
    save_file({**state, name: state[name] * math.nan}, tmp_path / "encoder.safetensors")
    with pytest.raises(UserError, match="1 tensors are not finite"):
        load_encoder(tmp_path)
    with pytest.raises(UserError, match="1 tensors are not finite"):
        load_weights(encoder, tmp_path)
    huge = {key: value * 1e38 if value.is_floating_point() else value for key, value in state.items()}
    save_file(huge, tmp_path / "encoder.safetensors")
    images = ArraySource("x", torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8))
    with pytest.raises(UserError, match="features that are not finite"):
        encode(load_encoder(tmp_path), images)


def test_a_file_of_torch_that_would_run_something_is_not_read(tmp_path: Path) -> None:
    """The message names what was refused, and does not hand on PyTorch's proposal to run it."""
    torch.save({"x": Fraction(1)}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps({"x": Fraction(1)}, protocol=4))
    for name, what in (("a.pt", r" \(fractions\.Fraction\)"), ("b.pt", "")):
        with warnings.catch_warnings(action="error"), pytest.raises(UserError) as caught:
            read_torch(tmp_path / name)
        assert re.search(
            f"contains more than tensors and is not read, for safety{what}: save", str(caught.value)
        )
        assert "weights_only" not in str(caught.value)
