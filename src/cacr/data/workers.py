"""The processes in which images are decoded, or this one in their stead."""

import os
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import DataLoader, Sampler

from cacr.data.batch import Batch
from cacr.data.decoder import Decoder, Work, WorkerFailure
from cacr.errors import UserError

BATCHES_AHEAD = 4  # that each worker prepares


def default_workers(processes: int, *, in_memory: bool) -> int:
    """Decoding processes for each of ``processes`` that share this machine: one per core, none for images in memory."""
    return 0 if in_memory else max(1, min(8, (os.cpu_count() or 1) // processes))


class Workers:
    """Runs a decoder in ``count`` processes, which last from one epoch to the next; 0: in this process.

    Batches come in the order of the work, whichever process made them.
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
        """The batches that the work asks for.

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
        """End the processes now. Left to the garbage collector this can take many seconds."""
        iterator: Any = self._loader._iterator
        self._loader._iterator = None
        if iterator is not None:
            iterator._shutdown_workers()

    def _lost_worker(self, error: BaseException) -> UserError | None:
        """For PyTorch's report of a dead worker, one that names the file it was reading."""
        told = re.match(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)", str(error))
        if not isinstance(error, RuntimeError) or told is None:
            return None
        dead = {int(number) for number in told[1].split(",")}
        held = [index for process, index in self._decoder.in_hand.tolist() if process in dead]
        files = ", ".join(self._decoder.source.describe(index) for index in held) or "no image yet"
        return UserError(
            f"a loader process died while reading {files}: {error}. If memory is short use fewer workers; "
            "if it is always the same file, remove it."
        )


class _WorkQueue(Sampler[Work]):
    """The work of the running epoch, as the sampler that a ``DataLoader`` wants."""

    def __init__(self) -> None:
        super().__init__()
        self.work: Iterator[Work] = iter(())

    def __iter__(self) -> Iterator[Work]:
        return self.work


def _as_it_is(item: Any) -> Any:
    return item


@contextmanager
def held_signals() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM from processes that are being started, until they ignore them by themselves.

    What a process that was forked from this one does with a signal before that, it would do in this one's name.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals(number: int) -> None:
    """Leave Ctrl-C and SIGTERM to the main process, which saves the run; keep Pillow's remarks quiet."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warnings.filterwarnings("ignore", module=r"PIL\.")
