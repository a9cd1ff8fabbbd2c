"""Memory that a step leaves to the next one."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt: how many blocks may come straight from the system, from which size on, and how
# much free memory at the end of the heap is given back to it.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_NEVER = -1


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory in the process, on a processor with glibc; elsewhere this does nothing.

    Large activations are otherwise fetched from the system at every step, which fills each page with zeros
    first: with five views of a batch that took a fifth of the step. At the end all of it is given back.
    """
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "malloc_trim")):
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
