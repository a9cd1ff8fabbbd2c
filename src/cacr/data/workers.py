"""The processes that decode images; without workers, this process."""

import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import DataLoader, Sampler

from cacr.cores import share_of_cores
from cacr.data.batch import Batch
from cacr.data.decoder import Decoder, Work, WorkerFailure
from cacr.errors import UserError

BATCHES_AHEAD = 4  # number of batches that each worker prepares


def default_workers(processes: int, *, in_memory: bool) -> int:
    """Decoding processes for each of ``processes`` on this machine: one per core in total; 0 for images in memory."""
    return 0 if in_memory else min(8, share_of_cores(processes))


class Workers:
    """Runs a decoder in ``count`` processes, which live for several epochs; 0: in this process.

    Batches come in the order of the work, independent of the process that made them.
    """

    def __init__(self, decoder: Decoder, count: int, *, pin_memory: bool) -> None:
        self._decoder = decoder
        self._queue = _WorkQueue()
        self._loader: DataLoader[Batch | WorkerFailure] = DataLoader(
            decoder,
            sampler=self._queue,
            batch_size=None,
            collate_fn=_as_it_is,
            num_workers=count,
            persistent_workers=count > 0,
            prefetch_factor=BATCHES_AHEAD if count else None,
            pin_memory=pin_memory,
            worker_init_fn=leave_signals,
        )

    def run(self, work: Iterator[Work]) -> Iterator[Batch]:
        """The batches of the work.

        Raises:
            UserError: a worker failed; the message names the file.
        """
        self._queue.work = work
        try:
            with held_signals():
                batches = iter(self._loader)
            for batch in batches:
                if isinstance(batch, WorkerFailure):
                    raise UserError(batch.message)
                yield batch
        except GeneratorExit:
            raise
        except BaseException as error:
            self.close()
            lost = self._lost_worker(error)
            if lost is None:
                raise
            raise lost from error

    def close(self) -> None:
        """End the processes now. Left to garbage collection, this can take many seconds."""
        iterator: Any = self._loader._iterator
        self._loader._iterator = None
        if iterator is not None:
            iterator._shutdown_workers()

    def _lost_worker(self, error: BaseException) -> UserError | None:
        """Replace PyTorch's error about a dead worker by one that names its current file."""
        match = re.match(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)", str(error))
        if not isinstance(error, RuntimeError) or match is None:
            return None
        dead = {int(number) for number in match[1].split(",")}
        held = [index for process, index in self._decoder.in_hand.tolist() if process in dead]
        files = ", ".join(self._decoder.source.describe(index) for index in held) or "no image yet"
        return UserError(
            f"a loader process died while reading {files}: {error}. If there is not enough memory, use fewer workers; "
            "if it is always the same file, remove it."
        )


class _WorkQueue(Sampler[Work]):
    """The work of the current epoch, as the sampler of a ``DataLoader``."""

    def __init__(self) -> None:
        super().__init__()
        self.work: Iterator[Work] = iter(())

    def __iter__(self) -> Iterator[Work]:
        return self.work


def _as_it_is(item: Any) -> Any:
    return item


@contextmanager
def held_signals() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM in processes that are being started, until they ignore these signals themselves.

    Before that, a forked process would handle a signal with the handlers of this process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals(number: int) -> None:
    """Leave Ctrl-C and SIGTERM to the main process, which saves the run; suppress Pillow's warnings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warnings.filterwarnings("ignore", module=r"PIL\.")
