"""Large requests, whose reading and conversion would keep the event loop from everything else: they are done in a thread.

Threads share the interpreter, so this makes nothing faster. But the loop gets its turn every 5 ms, whatever the size of the
request. What takes less than that, which is nearly all, is done in place: the loop would wait as long for a thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from antiphon.core.check_work import CheckOutcome
from antiphon.core.documents import outcome_size

T = TypeVar("T")

# A request is large from so many bytes, or items, on. A megabyte is decoded in about a millisecond; to read and convert an item
# takes up to 6 µs. The worst body below them, arrays and nothing else, takes 22 ms.
LARGE_BODY = 384 * 1024
LARGE_HISTORY = 250
# What is only skipped over, to find one member, is large from here on: that takes a third of a millisecond.
LARGE_TO_SKIP = 1024 * 1024


def is_large(outcome: CheckOutcome) -> bool:
    """What was read makes the request large."""
    return outcome_size(outcome) >= LARGE_BODY


# Few: more of them would leave the loop less of the interpreter.
THREADS = 2
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-request")


async def run_aside(work: Callable[[], T], *, large: bool) -> T:
    """The result of the work. Who is cancelled meanwhile leaves the thread to its end, so the work must be all that uses its
    objects."""
    if not large:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
