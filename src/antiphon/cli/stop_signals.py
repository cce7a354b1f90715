"""The signals that stop the gateway: the first one asks it to, a second one ends the process at once."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` on the event loop at a signal. After the block, a signal does what it did before."""
    loop = asyncio.get_running_loop()
    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
    except NotImplementedError:
        # The loops of Windows have no handlers of signals.
        with _plain_handlers(loop, stop):
            yield
        return
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def end_at_once() -> None:
    """From now on, at Ctrl-C. Python would only interrupt what runs, and that may wait for something."""
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, os._exit, 128 + signal.SIGINT)


@contextlib.contextmanager
def _plain_handlers(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
