"""SIGHUP: the settings are read again. If it comes because the terminal was closed, the gateway stops as before."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable

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
