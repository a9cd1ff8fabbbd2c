"""The memory of a run is counted before anything is loaded, and what does not fit is refused with what would."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cacr.distributed import alone
from cacr.encoders import build_encoder
from cacr.errors import UserError
from cacr.reading.memory import HOLES, WORKER
from cacr.training.building.networks import build_method
from cacr.training.cost import fit, live, need, passes
from cacr.training.cost.fit import lacking, require_room
from cacr.training.cost.live import live_peak, make_fake
from cacr.training.cost.need import Need, training_need
from cacr.training.cost.place import Place
from cacr.training.settings.check import check_settings
from cacr.training.settings.described import Described
from tests.conftest import TINY, Run, refused

HERE = Place(1, torch.device("cpu"))
DATA = Described("noise", images=4096, side=32, in_memory=True, measured=256)


def _resolved(**values: Any) -> Any:
    settings = check_settings({"data": "noise", **TINY, **values})
    return HERE.resolved(settings, DATA)


def test_the_peak_is_that_of_the_tensors_alive_at_once() -> None:
    with torch.device("meta"):
        layers = nn.Sequential(nn.Linear(100, 200, bias=False), nn.ReLU(), nn.Linear(200, 50, bias=False))
    mode = make_fake(layers)

    def forward() -> None:
        with torch.no_grad():
            layers(torch.empty(1000, 100))

    # while ReLU works, its input, its output and the images exist; afterwards never so much
    assert live_peak(layers, mode, forward) == 4 * 1000 * (100 + 200 + 200)

    def backward() -> None:
        layers(torch.empty(1000, 100)).sum().backward()

    # kept: images, ReLU's output (its input is gone). In its backward pass: the gradients of its output, of its
    # input, of the last layer and of that layer's weights; the ones that begin it are an expanded scalar.
    kept, gradients = 100 + 200, 200 + 200
    least = 4 * 1000 * (kept + gradients)
    assert least <= live_peak(layers, mode, backward) <= least + 4 * (1000 * 50 + 3 * 200 * 50 + 200 * 100)


def test_bf16_halves_what_is_kept() -> None:
    with torch.device("meta"):
        layer = nn.Linear(512, 512, bias=False)
    mode = make_fake(layer)
    full, half = (
        live_peak(layer, mode, lambda: layer(torch.empty(8192, 512)), bf16=on) for on in (False, True)
    )
    assert full == 4 * 8192 * 512 * 2  # input and output
    assert half == 8192 * 512 * (4 + 2 + 2) + 2 * 512 * 512  # the input twice, the weights once more


@pytest.mark.parametrize(
    "chosen",
    [
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x[(x > 0).nonzero(as_tuple=True)],
        lambda x: x[:, (x > 0).any(dim=0)],
        lambda x: x[(x > 0).any(dim=1)].reshape(-1),
    ],
)
def test_what_values_choose_is_counted_as_large_as_it_can_be(chosen: Callable[[Tensor], Tensor]) -> None:
    with torch.device("meta"):
        layer = nn.Linear(64, 32, bias=False)
    peak = live_peak(layer, make_fake(layer), lambda: chosen(layer(torch.empty(1000, 64))).sum().backward())
    assert peak >= 4 * 1000 * (64 + 32 + 32)


def _step(**values: Any) -> int:
    return training_need(_resolved(**values), DATA, page=False).parts["step"]


def test_a_step_grows_with_images_and_views_and_shrinks_with_chunks() -> None:
    common = {"views": 4, "batch_size": 256}
    one = _step(**common)
    assert 1.7 < _step(**common | {"batch_size": 512}) / one < 2.1
    assert 1.7 < _step(**common | {"views": 8}) / one < 2.1
    assert _step(**common, encode_chunk=64) < 0.6 * one


@pytest.mark.parametrize("framework", ["in_batch", "momentum", "queue"])
def test_a_batch_in_chunks_needs_what_going_through_all_of_them_says(framework: str) -> None:
    settings = _resolved(framework=framework, batch_size=180, encode_chunk=61, views=4)
    with torch.device("meta"):
        method, _ = build_method(settings)
    mode = make_fake(method)

    def step() -> None:
        method.train()([torch.empty(4, 180, 3, 32, 32)])["loss"].backward()

    with alone():
        every = live_peak(method, mode, step)
    step_part = training_need(settings, DATA, page=False).parts["step"]
    assert step_part / HOLES == pytest.approx(every, rel=0.06)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_counted_as_it_is(training: bool) -> None:
    layer, x = nn.BatchNorm2d(5).train(training), torch.randn(4, 5, 6, 6, requires_grad=True)
    arguments = (layer.weight, layer.bias, layer.running_mean, layer.running_var, training, 0.1, 1e-5)
    forward, backward = (
        torch.ops.aten.native_batch_norm.default,
        torch.ops.aten.native_batch_norm_backward.default,
    )
    with torch.no_grad():
        real, counted = (f(x, *arguments) for f in (forward, live.DIRECT[forward]))
        assert _forms(counted) == _forms(real)
        rest = (layer.weight, *arguments[2:4], *real[1:], training, 1e-5, [True, False, True])
        assert _forms(live.DIRECT[backward](x, x, *rest)) == _forms(backward(x, x, *rest))


def test_one_image_at_rest_takes_its_share_of_many() -> None:
    def built() -> nn.Module:
        return build_encoder("small_alexnet", image_size=32, width=0.1)

    with torch.device("meta"):
        counted = built()
    mode = make_fake(counted)

    def look() -> None:
        with torch.no_grad():
            counted.eval()(torch.empty(12, 3, 32, 32))

    assert 12 * live.bytes_of_one(built(), 32) == live_peak(counted, mode, look)


def _forms(tensors: Any) -> list[Any]:
    return [None if t is None else (t.shape, t.stride(), t.dtype) for t in tensors]


def test_a_momentum_encoder_and_a_queue_are_weights() -> None:
    plain = training_need(_resolved(), DATA, page=False).parts["weights"]
    queue = training_need(_resolved(framework="queue", queue_size=4096), DATA, page=False).parts["weights"]
    copies = plain // 2  # of weights and momenta, the weights
    assert queue == pytest.approx(plain + copies + 4 * 4096 * 128, rel=0.02)


def test_files_are_decoded_in_processes_and_their_crops_kept() -> None:
    files, settings = DATA._replace(in_memory=False), _resolved(workers=2, views=3)
    parts = training_need(settings, files, page=False).parts
    assert parts["held-out crops"] == 256 * 3 * 32**2 * (5 + 1 + 2)
    assert parts["decoding"] == 2 * (WORKER + (2 + 4) * 8 * 3 * 3 * 32**2)
    assert training_need(_resolved(), DATA, page=False).parts["held-out crops"] == 0


def _with_free(monkeypatch: pytest.MonkeyPatch, bytes_: float) -> None:
    monkeypatch.setattr(fit, "free_memory", lambda: bytes_)
    monkeypatch.setattr(need, "free_memory", lambda: bytes_)


def test_what_does_not_fit_is_refused_with_a_setting_that_would(monkeypatch: pytest.MonkeyPatch) -> None:
    large = _resolved(batch_size=1024, views=5, width=0.25)
    needed = training_need(large, DATA)
    _with_free(monkeypatch, needed.more + 50_000_000)
    assert require_room(large, DATA, HERE).total == pytest.approx(needed.total, rel=0.1)
    _with_free(monkeypatch, 0.6 * needed.more)
    with pytest.raises(
        UserError, match=r"needs about .* GB of memory \(step .* are free; it would fit"
    ) as told:
        require_room(large, DATA, HERE)
    chunk = int(str(told.value).rpartition("--set encode_chunk=")[2])
    assert require_room(large.model_copy(update={"encode_chunk": chunk}), DATA, HERE)
    with pytest.raises(UserError):  # the largest that fits
        require_room(large.model_copy(update={"encode_chunk": 2 * chunk}), DATA, HERE)
    _with_free(monkeypatch, 0)
    with pytest.raises(UserError, match="no single setting makes it fit"):
        require_room(large, DATA, HERE)


def test_passes_of_the_same_shapes_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def peak(*arguments: Any, **options: Any) -> int:
        counted.append(arguments)
        return live_peak(*arguments, **options)

    monkeypatch.setattr(passes, "live_peak", peak)
    passes._count.cache_clear()
    one = training_need(_resolved(), DATA)
    once = len(counted)
    assert (
        once and training_need(_resolved(seed=1, epochs=7, lr=0.1), DATA).parts["step"] == one.parts["step"]
    )
    assert len(counted) == once
    training_need(_resolved(views=4), DATA)
    training_need(_resolved(), DATA, processes=2)
    assert len(counted) == 3 * once


def test_every_process_of_a_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _resolved(batch_size=64)
    one, four = (training_need(settings, DATA, processes=n) for n in (1, 4))
    assert four.processes == 4 and four.more > 3 * (four.total - four.resident)
    assert training_need(settings, DATA, processes=4, machines=2).processes == 2
    assert four.parts["step"] <= one.parts["step"]
    _with_free(monkeypatch, 7e9)
    assert lacking(Need({"step": 2_000_000_000}, 100_000_000, 4), torch.device("cpu")) == (
        "this run needs about 8.0 GB of memory in total (2.0 GB in each of 4 processes: step 2.00 GB), "
        "of which 0.4 GB are in use already, but only 7.0 GB are free"
    )


def test_a_run_is_refused_before_anything_is_written(
    run: Run, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_free(monkeypatch, 1e6)
    options = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    out = tmp_path / "run"
    refused(run, ["pretrain", classes, "--out", out, *options], "this run needs about", "are free")
    assert not out.exists()
    code, text = run("pretrain", classes, "--dry-run", *options)
    assert code == 0 and "note: this run needs about" in text and "held-out crops" in text
