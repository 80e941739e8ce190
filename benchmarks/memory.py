"""What the C library does with memory that is freed."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MAP_THRESHOLD = -1, -3
"""Numbers of glibc's parameters."""
_KEPT = 2**30
_MAPPED = 2**25
"""The largest that glibc takes."""


def keep_freed() -> None:
    """Have freed memory stay with the process, up to a gibibyte.

    By default glibc may give the memory of a tensor back when it is freed, or not, depending on
    what else there is; to get it again costs half a millisecond for two megabytes, as much as
    the work on it. Tensors of more than 32 MiB are mapped anew in any case.
    """
    with suppress(OSError, AttributeError):
        option = ctypes.CDLL(None).mallopt
        option(_TRIM_THRESHOLD, _KEPT)
        option(_MAP_THRESHOLD, _MAPPED)
