"""The event loop of a gateway's processes, the garbage collector, and memory that goes back to the system."""

import asyncio
import ctypes
import gc
import sys


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The faster one, where it is installed. There is none for Windows."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


# ---- memory ----------------------------------------------------------------------------------------------------------

# New objects after which it looks at them, and how many of these looks go by before it looks at older ones. Python's own 700 is
# for small programs: a thousand open streams are 300,000 objects, and what a response leaves behind is freed without the
# collector. This took about a tenth off a response, whole or streamed; higher figures gave no more.
THRESHOLDS = (5_000, 20, 20)

# The options of glibc's allocator, by their numbers in <malloc.h>. With its defaults, a heap for each of two dozen threads and
# large bodies between small objects kept 50 to 100 MB that nobody used, after 30,000 mixed requests.
MALLOC_OPTIONS = {
    # M_MMAP_THRESHOLD: what is larger has pages of its own, which go back as soon as it is freed. By default it rises with the
    # first large body to the size of that. With less, a history of 300 KB would take its pages anew each time: 0.1 ms.
    -3: 512 * 1024,
    # M_TRIM_THRESHOLD: what is free at the end of a heap goes back if it is more.
    -1: 1024 * 1024,
    # M_ARENA_MAX: heaps of all threads together.
    -8: 2,
}


def collect_less() -> None:
    """Called once everything is set up: what there is by then stays, and is not looked at again."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def return_memory() -> None:
    """Called first in a process, before it has threads. Does nothing where the allocator is not glibc's."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        for option, value in MALLOC_OPTIONS.items():
            mallopt(option, value)
