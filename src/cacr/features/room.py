"""Find out how many images can be encoded or trained on at once in the free memory."""

from dataclasses import replace

from torch import Tensor, inference_mode, nn, zeros

from cacr.data import Source
from cacr.data.workers import BATCHES_AHEAD
from cacr.distributed import world_size
from cacr.encoders import Encoder
from cacr.errors import UserError
from cacr.features.machine import Machine
from cacr.features.processes import gather_objects
from cacr.reading.memory import HOLES, WORKER, free_memory, gigabytes

SAFE = 0.5
"""If a rough upper bound is below this share of the free memory, nothing is estimated more exactly."""

LEARNING = 4
"""Factor on the outputs of all layers: more than a pass with gradients needs at once."""


def fitted(encoder: Encoder, source: Source, machine: Machine, size: int, *, beside: float = 0) -> Machine:
    """The machine with the largest batch that fits (see :func:`images_that_fit`)."""
    return replace(machine, batch_size=images_that_fit(encoder, source, machine, size, beside=beside))


def images_that_fit(
    encoder: Encoder, source: Source, machine: Machine, size: int, *, beside: float = 0
) -> int:
    """Largest batch that fits into the free memory, at most ``machine.batch_size``; the same in every process.

    Args:
        encoder: the encoder, in evaluation mode.
        source: the images; files are decoded in other processes.
        machine: has the requested batch size, and the number of decoding processes.
        size: side of the images.
        beside: bytes that are used at the same time, such as features.

    Raises:
        UserError: not even one image fits; says what to do.
    """
    requested = machine.batch_size
    ready, decoding = _decoding(source, machine, size)
    fixed = beside + decoding
    room = free_memory() / world_size() - fixed
    fits = requested
    if requested * (HOLES * _bound(encoder, size) + ready) > SAFE * room:
        # imported here, because importing takes longer than encoding if there is enough memory
        from cacr.training.cost.live import bytes_of_one

        each = HOLES * bytes_of_one(encoder, size) + ready
        fits = min(requested, max(0, int(room // each)))
        fits = fits if fits in (0, requested) else 1 << fits.bit_length() - 1
    least: int = min(gather_objects(fits))
    if least == 0:
        raise UserError(
            f"encoding images of {size} px with {encoder.info.encoder} needs more memory than is free: "
            f"{gigabytes(free_memory())} are free, and features and decoding need {gigabytes(fixed, 2)}; "
            "close other programs, or use a smaller memory_gb or fewer workers"
        )
    return least


def require_batch(encoder: Encoder, source: Source, machine: Machine, size: int, setting: str) -> None:
    """Refuse a batch that does not fit and cannot be made smaller, because something is trained on it.

    Raises:
        UserError: suggests a value of ``setting`` that fits.
    """
    if (fits := images_that_fit(encoder, source, machine, size)) < machine.batch_size:
        raise UserError(
            f"{machine.batch_size:,} images of {size} px are too many for {encoder.info.encoder} with "
            f"{gigabytes(free_memory())} of free memory; it would fit with --set {setting}={fits}"
        )


def require_learning(
    encoder: Encoder,
    network: nn.Module,
    source: Source,
    machine: Machine,
    size: int,
    *,
    states: int,
    setting: str | None = None,
) -> None:
    """Refuse to train a network with batches that do not fit.

    Args:
        encoder: the encoder of the network.
        network: returns scores of images.
        source: the images.
        machine: has the batch size, and the number of decoding processes.
        size: side of the images.
        states: numbers per weight that the optimiser stores.
        setting: name of the setting of the batch size; None if it is fixed.

    Raises:
        UserError: suggests a value of ``setting`` that fits.
    """
    ready, decoding = _decoding(source, machine, size)
    weights = sum(p.nbytes for p in network.parameters())
    room = free_memory() / world_size() - decoding - states * weights
    images = machine.batch_size
    if images * (HOLES * LEARNING * _bound(encoder, size) + ready) + HOLES * weights <= SAFE * room:
        return
    # imported here, because importing takes longer than a step if there is enough memory
    from cacr.training.cost.live import bytes_of_step

    def fits(count: int) -> bool:
        return HOLES * bytes_of_step(network, count, size) + count * ready <= room

    if fits(images):
        return
    smaller = next((n for n in (images >> k for k in range(1, images.bit_length() - 1)) if fits(n)), None)
    advice = "use a machine with more memory, or a protocol that does not train a whole network"
    if setting is not None and smaller is not None:
        advice = f"it would fit with --set {setting}={smaller}"
    raise UserError(
        f"training {encoder.info.encoder} on batches of {images:,} images of {size} px needs more than the "
        f"{gigabytes(free_memory())} of free memory; {advice}"
    )


def _decoding(source: Source, machine: Machine, size: int) -> tuple[int, int]:
    """Bytes of decoding processes, per image of a batch and fixed; images in memory need none."""
    workers = machine.workers if source.image_size is None else 0
    return 3 * size**2 * (2 + BATCHES_AHEAD) * workers, WORKER * workers


@inference_mode()
def _bound(encoder: Encoder, size: int) -> int:
    """Upper bound of the bytes for one image: the outputs of all layers and blocks, and the image."""
    found = 0

    def add(_: nn.Module, __: object, made: object) -> None:
        nonlocal found
        found += made.nbytes if isinstance(made, Tensor) else 0

    hooks = [module.register_forward_hook(add) for module in encoder.modules()]
    try:
        weight = next(iter(encoder.parameters()), zeros(0))
        encoder.eval()(zeros(1, encoder.info.channels, size, size, device=weight.device))
    finally:
        for hook in hooks:
            hook.remove()
    return found + 12 * size**2
