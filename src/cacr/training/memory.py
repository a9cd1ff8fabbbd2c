"""Memory that a step leaves to the next one."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt: how many blocks may come straight from the system, from which size on, and how
# much free memory at the end of the heap is given back to it.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_NEVER = -1


def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def give_back() -> None:
    """Give free memory back to the system.

    Between steps and measurements: their blocks have other sizes and do not fit into each other's places, so that
    the process would grow to the sum of both.
    """
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory in the process, on a processor with glibc; elsewhere this does nothing.

    Large activations are otherwise fetched from the system at every step, which fills each page with zeros
    first: with five views of a batch that took a fifth of the step. At the end all of it is given back.
    """
    library = _glibc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        # what glibc arrives at by itself after large blocks were freed
        library.mallopt(_MMAP_MAX, 65_536)
        library.mallopt(_MMAP_THRESHOLD, 32 << 20)
        library.mallopt(_TRIM_THRESHOLD, 64 << 20)
        library.malloc_trim(0)
