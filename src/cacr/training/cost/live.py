"""Count the bytes of tensors that exist at the same time while a module works, without computing or storing them.

Every operation runs on fake tensors. They have shapes, types, strides and lifetimes but no values, and autograd and
autocast treat them as real ones. So the peak includes what a formula forgets: gradients during the backward pass,
copies in bf16, and what a layer needs only while it works.
"""

import copy
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_CPU = torch.device("cpu")

_LARGE = 2**62
"""The value of an integer tensor, if a module asks for it: a queue that counts its keys is then full."""


def _batch_norm(
    x: Tensor, weight: object, bias: object, mean: object, var: object, training: bool, *_: object
) -> Any:
    saved = x.shape[1] if training else 0
    statistics = (x.new_empty(saved, dtype=torch.float32) for _ in range(2))
    return torch.empty_like(x), *statistics


def _batch_norm_backward(gradient: object, x: Tensor, *rest: Any) -> Any:
    like = (x, *(x.new_empty(x.shape[1], dtype=torch.float32) for _ in range(2)))
    return tuple(torch.empty_like(t) if asked else None for t, asked in zip(like, rest[-1], strict=True))


def _nonzero(x: Tensor) -> Tensor:
    return torch.empty(x.numel(), x.dim(), dtype=torch.int64, device=x.device)


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Boolean masks as the places that they choose."""
    places: list[Tensor | None] = []
    for index in indices:
        chosen = index is not None and index.dtype in (torch.bool, torch.uint8)
        places += _nonzero(index).unbind(1) if index is not None and chosen else [index]
    return torch.ops.aten.index.Tensor(x, places)  # type: ignore[no-any-return]


DIRECT: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.native_batch_norm.default: _batch_norm,
    torch.ops.aten.native_batch_norm_backward.default: _batch_norm_backward,
    torch.ops.aten.nonzero.default: _nonzero,
    torch.ops.aten.masked_select.default: lambda x, mask: torch.where(mask, x, x).flatten(),
    torch.ops.aten.index.Tensor: _index,
}
"""What operations return that fake tensors take apart into dozens of others (two thirds of the time), or cannot carry
out because values decide how large the result is: then it is as large as it can be."""


class _Mode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Asks once whether there is a GPU; fake tensors ask at every operation, and search for libraries each time."""

    def __init__(self) -> None:
        super().__init__()
        self._avoid = super().avoid_device_init

    @property
    def avoid_device_init(self) -> bool:
        return self._avoid


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages that are made while it is entered, for as long as each of them lives.

    Args:
        fake: whether the tensors have no values.

    Attributes:
        now: bytes alive.
        peak: the most that were alive at once.
    """

    def __init__(self, *, fake: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = fake
        self.now = self.peak = 0
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def ignore(self, tensors: Iterable[Tensor]) -> None:
        """Do not count tensors that are there already, nor views of them."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self._known[storage._cdata] = weakref.ref(storage)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if (
            self.fake and func is torch.ops.aten._local_scalar_dense.default
        ):  # a number is asked for, and there is none
            kind = args[0].dtype
            return True if kind == torch.bool else 1.0 if kind.is_floating_point else _LARGE
        if func is torch.ops.prim.device.default:  # asked more often than all else together
            return _CPU
        known = DIRECT.get(func) if self.fake else None
        made = (known or func)(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if (known := self._known.get(key)) is not None and known() is not None:
            return

        def drop(_: object) -> None:
            self.now -= size
            self._known.pop(key, None)

        self._known[key] = weakref.ref(storage, drop)
        self.now += size
        self.peak = max(self.peak, self.now)


def make_fake(module: nn.Module) -> FakeTensorMode:
    """Put fake tensors on a CPU in the place of a module's tensors on the meta device; returns the mode to work in.

    A module cannot be built of fake tensors: they cannot be copied deeply.
    """
    mode = _Mode()

    def fake(tensor: Tensor) -> Tensor:
        made: Tensor = FakeTensor(mode, tensor.detach(), _CPU)
        return made

    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(fake(parameter), requires_grad=parameter.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = fake(buffer)
    return mode


def live_peak(
    module: nn.Module, mode: FakeTensorMode, work: Callable[[], object], *, bf16: bool = False
) -> int:
    """The most bytes that were alive at once during ``work``, without those of the module's own tensors.

    Args:
        module: of fake tensors, see :func:`make_fake`.
        mode: of these.
        work: calls the module, and makes its inputs.
        bf16: multiply in bf16, by autocast.
    """
    cast: AbstractContextManager[object] = nullcontext()
    if bf16:
        cast = torch.autocast("cpu", torch.bfloat16)
    live = LiveBytes(fake=True)
    live.ignore([*module.parameters(), *module.buffers()])
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), mode, live, cast:
        warnings.simplefilter("ignore")  # of a torch that wonders about tensors without values
        work()
    module.zero_grad(set_to_none=True)
    return live.peak


def bytes_of_step(module: nn.Module, images: int, size: int) -> int:
    """The most bytes alive at once in a forward and backward pass, gradients included, beside the weights.

    Args:
        module: of real tensors; stays as it is.
        images: of the batch.
        size: their side.
    """
    copied = copy.deepcopy(module).to("meta").train()
    mode = make_fake(copied)
    return live_peak(copied, mode, lambda: copied(torch.empty(images, 3, size, size)).sum().backward())


@torch.inference_mode()
def bytes_of_one(encoder: nn.Module, size: int) -> int:
    """The most bytes alive at once while an encoder at rest encodes one image; n images take n times as many.

    One image is encoded: a copy of an encoder without values would take longer to make.

    Args:
        encoder: of real tensors.
        size: the image's side.
    """
    tensors = [*encoder.parameters(), *encoder.buffers()]
    live = LiveBytes(fake=False)
    live.ignore(tensors)
    with live:
        encoder.eval()(torch.zeros(1, 3, size, size, device=tensors[0].device if tensors else _CPU))
    return live.peak
