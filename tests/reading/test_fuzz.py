"""Random and damaged bytes, fed to everything that reads files from outside: our own errors, and no others."""

import gzip
import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from cacr.data import ArraySource, Source, StreamSource, open_source
from cacr.data.annotated import AnnotatedSource
from cacr.decode import read_rgb
from cacr.encoders import Reader as FeatureReader
from cacr.encoders import build_encoder, build_head, load_encoder, save_encoder, save_head1
from cacr.encoders.initial_weights import load_weights
from cacr.encoders.reader_file import READER, save_reader
from cacr.errors import UserError
from cacr.evaluation.settings import Evaluation
from cacr.features.stored import read_features
from cacr.reading.settings import parse_assignment, read_settings_file
from cacr.reporting.page import _old_gallery
from cacr.runs.result import Result, read_results, write_result
from cacr.training.building.checkpoints import load_checkpoint, save_checkpoint
from cacr.training.settings.check import check_settings
from tests.data.annotating import marked, voc_image, voc_object, write_instances

ENCODER = build_encoder("small_alexnet", image_size=32, width=0.02)
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 9, 8, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Reader:
    """A file that somebody else may have written: where it lies, a sound content, and who reads it.

    Attributes:
        place: the file, relative to an empty folder.
        make: writes sound files into the folder.
        read: reads the file; the folder is given.
    """

    place: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]


def _look_at(source: Source) -> None:
    """Whatever training and evaluation ask of a source."""
    source.class_counts()
    if isinstance(source, ArraySource):
        source.take(np.arange(min(2, len(source))))
    elif isinstance(source, StreamSource):
        for raw in source.stream(range(len(source.shards)), 0, min(3, len(source))):
            raw.decode()
    else:
        source.describe(len(source) - 1)


def _source(spec: str) -> Callable[[Path], object]:
    return lambda folder: _look_at(open_source(spec.format(folder=folder), part="train", root=folder))


def _write(place: str, content: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)

    return make


def _picture(kind: str, mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS[0]).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def _npz() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=PIXELS, y=np.arange(3))
    return buffer.getvalue()


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, PIXELS)
    return buffer.getvalue()


def _features() -> bytes:
    buffer = io.BytesIO()
    values = np.ones((3, ENCODER.feature_dim), dtype=np.float32)
    np.savez(buffer, features=values, index=np.arange(3), name=np.array(["x[0]", "x[1]", "x[2]"]))
    return buffer.getvalue()


def _tar(mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for number in range(2):
            for suffix, content in (("png", _picture("PNG")), ("cls", b"1"), ("txt", b"a dog")):
                entry = tarfile.TarInfo(f"{number}.{suffix}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _index(folder: Path) -> None:
    (folder / "a.tar").write_bytes(_tar())
    (folder / "index.json").write_text('{"shardlist": [{"url": "a.tar", "nsamples": 2}]}')


def _torch_file() -> bytes:
    buffer = io.BytesIO()
    torch.save({"state_dict": ENCODER.backbone.state_dict()}, buffer)
    return buffer.getvalue()


def _result(folder: Path) -> None:
    result = Result(
        "knn", "encoder", 0.5, None, "d", "d", "the test part", None, {}, {}, 0, {}, {}, {}, weights="ab"
    )
    write_result(folder, result).rename(folder / "result.json")


def _checkpoint(content: bytes, folder: Path) -> Path:
    """The content under a name with its right checksum, as somebody who means harm would write it."""
    path = folder / f"step-00000001.{zlib.crc32(content):08x}.pt"
    path.write_bytes(content)
    return path


def _save_checkpoint(folder: Path) -> None:
    state = {"format": 1, "images": 8, "step": 1, "epoch": 0, "batch": 1, "method": {"a": torch.ones(3)}}
    state |= {"optimizer": {"state": {0: {"momentum_buffer": torch.ones(3)}}}, "diagnostics": {}}
    save_checkpoint(folder, 1, state).rename(folder / "checkpoint")


def _mnist(folder: Path) -> None:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    images = struct.pack(">IIII", 0x803, 2, 28, 28) + bytes(2 * 28 * 28)
    labels = struct.pack(">II", 0x801, 2) + bytes(2)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(images)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def _stl10(folder: Path) -> None:
    (folder / "train_X.bin").write_bytes(bytes(2 * 3 * 96 * 96))
    (folder / "train_y.bin").write_bytes(b"\x01\x02")
    (folder / "class_names.txt").write_bytes(b"bird\ncat\n")


def _webvision(folder: Path) -> None:
    (folder / "info").mkdir(exist_ok=True)
    (folder / "google").mkdir(exist_ok=True)
    (folder / "info" / "train_filelist_google.txt").write_bytes(b"google/a.jpg 0\ngoogle/b.jpg 1\n")
    (folder / "info" / "synsets.txt").write_bytes(b"n01440764 tench\nn01443537 goldfish\n")


def _save_reader(folder: Path) -> None:
    save_encoder(folder, ENCODER, ENCODER.info)
    dim = ENCODER.feature_dim
    save_reader(folder / READER, FeatureReader("white", 70, torch.ones(dim), torch.ones(dim, 2)), ENCODER)


def _save_head1(folder: Path) -> None:
    save_encoder(folder, ENCODER, ENCODER.info)
    save_head1(folder, build_head("simclr_v2", ENCODER.feature_dim, dim=2, hidden=3), ENCODER)


def _load_head1(folder: Path) -> None:
    load = load_encoder(folder).load_head1
    assert load is not None
    load()


def _coco(folder: Path) -> None:
    images = [{"id": 1, "file_name": "a.png", "width": 20, "height": 10}]
    runs = {"size": [10, 20], "counts": "P137000000000\\3"}
    masks = [[[1.0, 1.0, 9.0, 1.0, 5.0, 8.0]], runs, {"size": [10, 20], "counts": [10, 30, 160]}]
    write_instances(
        folder, images, [marked(1, 1, [1, 2, 8.5, 6], id=n, segmentation=m) for n, m in enumerate(masks)]
    )


def _draw_masks(folder: Path) -> None:
    source = open_source(f"coco:{folder}", part="train")
    assert isinstance(source, AnnotatedSource)
    for objects in source.objects:
        for mask in objects.masks:
            if mask is not None and objects.height * objects.width < 10**6:
                assert mask.pixels(objects.height, objects.width).shape == (objects.height, objects.width)


SETTINGS = b"epochs: 3\nlr: 0.1\nviews: 4\nt_neg: 2\ngrey: 0.2\nmilestones: [0.5, 0.8]\nobjective_options: {t_pos: 1}\n"

READERS = {
    "settings": Reader(
        "a.yaml",
        _write("a.yaml", SETTINGS),
        lambda f: check_settings({"data": "x", **read_settings_file(f / "a.yaml")}),
    ),
    "description of an encoder": Reader(
        "encoder.json", lambda f: save_encoder(f, ENCODER, ENCODER.info), lambda f: load_encoder(f)
    ),
    "weights of an encoder": Reader(
        "encoder.safetensors", lambda f: save_encoder(f, ENCODER, ENCODER.info), lambda f: load_encoder(f)
    ),
    "reader of an encoder": Reader("reader.safetensors", _save_reader, lambda f: load_encoder(f)),
    "first layer of a head": Reader("head1.safetensors", _save_head1, _load_head1),
    "weights to start from": Reader(
        "a.pt", _write("a.pt", _torch_file()), lambda f: load_weights(ENCODER, f / "a.pt")
    ),
    "result": Reader("result.json", _result, read_results),
    "checkpoint": Reader(
        "checkpoint",
        _save_checkpoint,
        lambda f: load_checkpoint(_checkpoint((f / "checkpoint").read_bytes(), f)),
    ),
    "npz": Reader("a.npz", _write("a.npz", _npz()), _source("{folder}/a.npz")),
    "npy": Reader("a.npy", _write("a.npy", _npy()), _source("{folder}/a.npy")),
    "features": Reader(
        "f.npz",
        _write("f.npz", _features()),
        lambda f: read_features(
            f / "f.npz", ENCODER, ArraySource("x", torch.zeros(3, 3, 4, 4, dtype=torch.uint8))
        ),
    ),
    "captions": Reader(
        "a.jsonl",
        _write(
            "a.jsonl", b'{"image": "a.jpg", "captions": ["a dog"]}\n{"image": "b.jpg", "captions": "a cat"}\n'
        ),
        _source("pairs:{folder}/a.jsonl"),
    ),
    "shard": Reader("a.tar", _write("a.tar", _tar()), _source("wds:{folder}/a.tar")),
    "compressed shard": Reader("a.tar", _write("a.tar", _tar("w:gz")), _source("wds:{folder}/a.tar")),
    "shard of an index": Reader("a.tar", _index, _source("wds:{folder}/index.json")),
    "index of shards": Reader("index.json", _index, _source("wds:{folder}/index.json")),
    "mnist images": Reader("MNIST/raw/train-images-idx3-ubyte", _mnist, _source("mnist")),
    "mnist labels": Reader("MNIST/raw/train-labels-idx1-ubyte", _mnist, _source("mnist")),
    "stl10 labels": Reader("train_y.bin", _stl10, _source("stl10")),
    "stl10 names": Reader("class_names.txt", _stl10, _source("stl10")),
    "webvision list": Reader("info/train_filelist_google.txt", _webvision, _source("webvision:{folder}")),
    "webvision names": Reader("info/synsets.txt", _webvision, _source("webvision:{folder}")),
    "boxes and masks of COCO": Reader("instances.json", _coco, _draw_masks),
    "boxes of Pascal VOC": Reader(
        "Annotations/a.xml",
        lambda f: voc_image(f, "a", [voc_object("dog", (1, 1, 9, 9)), voc_object("cat", (3, 3, 8, 7))]),
        _source("voc:{folder}"),
    ),
    "report": Reader(
        "a.html",
        _write("a.html", b'<script type="application/json" id="gallery">{"digests": ["d"]}</script>'),
        lambda f: _old_gallery(f / "a.html", "d"),
    ),
    **{
        f"{kind} image": Reader(
            "a.jpg", _write("a.jpg", _picture(kind, mode)), lambda f: read_rgb(f / "a.jpg", "a.jpg", 4)
        )
        for kind, mode in (
            ("PNG", "RGBA"),
            ("JPEG", "RGB"),
            ("GIF", "P"),
            ("TIFF", "F"),
            ("BMP", "RGB"),
            ("WEBP", "RGBA"),
            ("PPM", "L"),
        )
    },
}
NUMBERS = [
    b"\xff" * 4,
    b"\x00" * 4,
    b"\x7f\xff\xff\xff",
    b"99999999999999999999",
    b"-1",
    b"1e999",
    b"nan",
    b"9" * 5000,
]


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """Sound content with a few pieces overwritten, left out, repeated, or replaced by odd numbers."""
    content = sound
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.sampled_from([0, 1, 2, 4, 16, 100, 10_000])))
        piece = draw(st.one_of(st.just(b""), st.binary(max_size=8), st.sampled_from(NUMBERS)))
        piece = draw(st.sampled_from([piece, content[begin:end] * 2, content[begin:end][::-1]]))
        content = content[:begin] + piece + content[end:]
    return content


@pytest.mark.parametrize("name", READERS)
def test_sound_files_are_read(name: str, tmp_path: Path) -> None:
    """The files that are damaged below are sound to begin with."""
    READERS[name].make(tmp_path)
    READERS[name].read(tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
def test_damaged_files_raise_our_own_errors_alone(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    reader, folder = READERS[name], tmp_path_factory.mktemp("fuzz")
    reader.make(folder)
    path = folder / reader.place
    content = data.draw(st.one_of(damaged(path.read_bytes()), st.binary(max_size=300)))
    path.write_bytes(content)
    try:
        reader.read(folder)
    except UserError as error:
        assert str(error)


VALUES = st.recursive(
    st.one_of(
        st.text(max_size=8),
        st.integers(),
        st.floats(),
        st.none(),
        st.booleans(),
        st.sampled_from(
            [
                "2020-01-01",
                "0x_",
                "9" * 5000,
                "[" * 200,
                "&a [*a]",
                "~",
                "!!python/name:os.system",
                "1:30",
                "1e999",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.one_of(
    st.sampled_from(sorted(type(check_settings({"data": "x"})).model_fields)),
    st.sampled_from(
        ["t_neg", "t_pos", "grey", "scale", "size", "local_size", "mean", "queue_size", "k", "lrs"]
    ),
    st.text(max_size=6),
)


@given(given_values=st.dictionaries(NAMES, VALUES, max_size=4))
@example({"objective": ["cacr"]})
@example({"imbalance": 3, "encoder": {}})
@example({"framework_options": 3, "view_options": [1], "objective_options": "x"})
@example({"size": "inf", "brightness": float("nan"), "blur_kernel": 10**400})
@example({"protocol": 3, "options": 4, "k": 10**30})
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_any_value_of_any_setting_is_taken_or_refused(given_values: dict[str, Any]) -> None:
    for check in (check_settings, Evaluation.parse):
        try:
            check({"data": "x", **given_values})
        except UserError as error:
            assert str(error)


@given(st.one_of(st.text(max_size=30), VALUES.map(str)))
@example("lr=0x_")
@example("lr=" + "9" * 5000)
@example("lr=2020-01-01")
@example("lr=" + "[" * 5000)
@example("lr=&a [*a, *a]")
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_any_assignment_is_read_or_refused(text: str) -> None:
    try:
        name, value = parse_assignment(text)
    except UserError:
        return
    assert name == name.strip()
    json.dumps(value)  # plain values alone


def test_a_billion_laughs_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    (tmp_path / "a.yaml").write_text("\n".join(lines))
    with pytest.raises(UserError, match="alias"):
        read_settings_file(tmp_path / "a.yaml")


def test_an_unpacked_file_larger_than_memory_is_refused(tmp_path: Path) -> None:
    import zipfile

    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "|u1", "fortran_order": False, "shape": (10**15, 9, 8, 3)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content.getvalue())
    with pytest.raises(UserError, match=r"its header says uint8 \(1000000000000000, 9, 8, 3\)"):
        open_source(str(tmp_path / "a.npz"))


def test_a_compressed_shard_that_claims_a_giant_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("a.png")
    entry.size = 10**12
    (tmp_path / "a.tar").write_bytes(gzip.compress(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    with pytest.raises(UserError, match=r"a\.png: its header says 1,000,000,000,000 bytes"):
        open_source(f"wds:{tmp_path}/a.tar")
