"""Tune malloc to keep freed memory between steps."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt: the number of blocks that may come directly from the system, their smallest size, and
# how much free memory at the end of the heap is returned to the system.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_NEVER = -1


def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def give_back() -> None:
    """Return free memory to the system.

    Called between steps and measurements. Their blocks have different sizes and cannot reuse each other's memory;
    without this the process would grow to the sum of both.
    """
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory in the process, on a CPU with glibc; does nothing on other systems.

    Otherwise large activations are requested from the system at every step, which fills each page with zeros first:
    with five views of a batch that took a fifth of the step. At the end all free memory is returned.
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
        # the value that glibc itself reaches after large blocks were freed
        library.mallopt(_MMAP_MAX, 65_536)
        library.mallopt(_MMAP_THRESHOLD, 32 << 20)
        library.mallopt(_TRIM_THRESHOLD, 64 << 20)
        library.malloc_trim(0)
