"""What a run would be: every resolved setting, its size, its memory and its steps, without data or training."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cacr.config import PretrainSettings
from cacr.data.order import count_batches
from cacr.frameworks import Framework, Queue
from cacr.training.check import check_settings
from cacr.training.launch import accelerator, processes
from cacr.training.optimizers import RATE_BATCH, USUAL
from cacr.training.pretrain import build_method, make_views_of, open_data, resolve_for
from cacr.training.recipes import RECIPES, with_recipe
from cacr.training.resolve import Described, resolve, run_length

GIGABYTE = 1e9


def dry_run(values: Mapping[str, Any]) -> list[str]:
    """Lines that describe a run.

    The data is looked at where it is given; otherwise what the recipe knows of it is enough. The model is built
    without memory, so that it may be larger than this machine.

    Args:
        values: settings by name, ``recipe`` among them.
    """
    recipe = RECIPES.get(str(values.get("recipe")))
    merged = with_recipe(values)
    known = recipe is not None and values.get("data") is None
    if known and recipe is not None:
        merged.setdefault("data", recipe.data.name)
    settings = check_settings(merged)
    world, device = processes(settings), torch.device(accelerator(settings))
    if known and recipe is not None:
        data = recipe.data
        settings = resolve(settings, data, world_size=world, device=device)
    else:
        settings, data = resolve_for(settings, open_data(settings), world, device)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        method = build_method(settings, None, [])
        lines = _describe(settings, data, method, world)
    resolved = [f"  {name}: {value}" for name, value in settings.model_dump(mode="json").items()]
    return [*lines, "settings:", *resolved]


def _describe(settings: PretrainSettings, data: Described, method: Framework, world: int) -> list[str]:
    """The facts of a run that follow from its settings."""
    assert isinstance(settings.batch_size, int) and isinstance(settings.views, int)
    assert isinstance(settings.epochs, int) and isinstance(settings.lr, float)
    batch, views = settings.batch_size, settings.views
    batches = count_batches(data.images, batch, world, keep_all=False)
    length = run_length(batches, settings.epochs, settings)
    trained = [p for p in method.parameters() if p.requires_grad]
    held = [p for p in method.parameters() if not p.requires_grad]
    states = USUAL[settings.optimizer].states
    negatives = method.negatives(batch, views)
    share = -(-batch // world)
    activations, loss = measure_memory(settings, method, share)
    rows = {
        "data": f"{data.name}: {data.images:,} images, about {data.side} px",
        "parameters": f"{_count(trained):,} trained, {_count(held):,} held "
        f"({_count(list(method.encoder.parameters())):,} of them the encoder that is kept)"
        if held
        else f"{_count(trained):,} ({_count(list(method.encoder.parameters())):,} of them the encoder)",
        "negatives": f"{negatives.number:,} for each query: {negatives.origin}",
        "processes": f"{world}, {share:,} of {batch:,} images in each",
        "steps": f"{length.per_epoch:,} an epoch, {length.total:,} in all; "
        f"{length.total * settings.accumulate * batch * views:,} views",
        "lr": f"{settings.lr:.4g} (= {settings.lr * RATE_BATCH / (batch * settings.accumulate):.4g} x "
        f"{batch * settings.accumulate} / {RATE_BATCH})",
        "activations": f"{_gigabytes(activations)} kept for the backward pass in each process (float32, attention "
        "written out)",
        "loss": f"{_gigabytes(loss)} kept for the backward pass of the global batch's loss",
        "weights": f"{_gigabytes(4 * ((2 + states) * _count(trained) + _count(held)))} with gradients and optimiser",
    }
    if isinstance(method, Queue):
        rows["queue"] = f"{_gigabytes(method.queue.nbytes)} for {len(method.queue):,} keys"
    return [f"{name:<12}{text}" for name, text in rows.items()]


def measure_memory(settings: PretrainSettings, method: Framework, images: int) -> tuple[int, int]:
    """Bytes kept for the backward pass of the embedding of ``images`` images, and of the loss of a global batch.

    Nothing is computed: the method is on the meta device.
    """
    assert isinstance(settings.batch_size, int)
    sizes: dict[int, int] = {}
    for view in make_views_of(settings).augmentations:
        sizes[view.size] = sizes.get(view.size, 0) + 1
    views = [torch.empty(count, images, 3, size, size, device="meta") for size, count in sizes.items()]
    with _counted(method) as activations:
        queries = method.embed(views)
    small = [x[:, :2] for x in views]
    targets = method.targets(small)
    wide = queries.new_empty(len(queries), settings.batch_size, queries.shape[2]).requires_grad_()
    keys = None if targets is None else wide.new_empty(len(targets), *wide.shape[1:])
    with _counted(method) as loss:
        method.loss(wide, keys)
    return activations(), loss()


@contextmanager
def _counted(method: Framework) -> Iterator[Callable[[], int]]:
    """Count the bytes that autograd keeps, each storage once; those of the method itself are not counted."""
    own = {t.untyped_storage()._cdata for t in (*method.parameters(), *method.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        key = tensor.untyped_storage()._cdata
        if key not in own:
            kept[key] = tensor  # held, so that no other storage takes its number
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield lambda: sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def _count(parameters: list[Any]) -> int:
    return sum(p.numel() for p in parameters)


def _gigabytes(size: int) -> str:
    return f"{size / GIGABYTE:,.3f} GB"
