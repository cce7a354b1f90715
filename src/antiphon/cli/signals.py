"""The signals of a gateway: SIGHUP reads the settings again, the others stop it."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator

from antiphon.logs import log


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def reload_at_hangup(reload: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
    """One reload after the other, until it is cancelled. Windows has no such signal."""
    if not hasattr(signal, "SIGHUP"):
        return
    hung_up = asyncio.Event()
    # A command that was started with nohup outlives its terminal.
    ends_with_terminal = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up.set)
    while True:
        await hung_up.wait()
        hung_up.clear()
        if ends_with_terminal and not has_terminal():
            stop()
            return
        try:
            await reload()
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug)


# ---- stop: the first signal asks the gateway to, a second one ends the process ---------------------------------------

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
