"""How a process of a gateway begins: its event loop, its memory, what is checked before it listens; and what it reports when
it starts and stops."""

import asyncio
import ctypes
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import typer
from aiohttp import web

from antiphon import logs
from antiphon.app.banner import Address
from antiphon.errors import StoreUnavailable
from antiphon.server.parts import APP
from antiphon.settings.errors import SettingsError
from antiphon.settings.keys import is_loopback, needs_key
from antiphon.settings.settings import Settings, data_directory
from antiphon.store import CannotOpen, default_url, open_store

if TYPE_CHECKING:
    from antiphon.engines.embedded.process import EngineProcess, SharedEngineProcess

STOPPING = "Stopping: {are} running; at most {most:g} s. Ctrl-C again stops at once."
OPEN_TO_ALL = (
    "other machines can reach {host}, and no key is set: anybody there could use the gateway, and read what is stored. "
    "Set a key with --api-key KEY or ANTIPHON_API_KEY=KEY (`antiphon key new NAME` makes one), or listen on 127.0.0.1. "
    "--insecure-no-auth starts it as it is."
)


def refuse_to_be_open(settings: Settings) -> Settings:
    """Without a key only this machine is let in, unless the settings say that everybody is."""
    is_open = not needs_key(settings) and not settings.insecure_no_auth and not is_loopback(settings.host)
    if is_open and not _has_stored_keys(settings):
        raise SettingsError(OPEN_TO_ALL.format(host=settings.host or "every address"))
    return settings


def _has_stored_keys(settings: Settings) -> bool:
    """A gateway that had keys needs one for good. In a thread of its own: an event loop may run here."""
    url = settings.store or default_url(data_directory(settings))

    async def read() -> bool:
        async with open_store(url) as store:
            return bool((await store.accounts.keys()).keys)

    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, read()).result()
    except (CannotOpen, StoreUnavailable):
        return False


def log_listening(app: web.Application, address: Address, embedded: "EngineProcess | SharedEngineProcess | None") -> None:
    model: dict[str, Any] = {"model": embedded.alias} if embedded is not None else {}
    logs.log("listening", url=str(address), engines=[engine.root for engine in app[APP].gateway.pool.engines], **model)


def announce_stop(app: web.Application, settings: Settings) -> None:
    """Who pressed Ctrl-C sees what it waits for; a program finds it in the log."""
    running = app[APP].gateway.in_flight.count + app[APP].open.answers.count
    if not logs.is_plain(settings.log_format):
        logs.log("stopping", responses=running, seconds_at_most=settings.shutdown_timeout)
        return
    are = "1 response is" if running == 1 else f"{running} responses are"
    words = STOPPING.format(are=are, most=settings.shutdown_timeout) if running else "Stopping."
    # In place of the ^C that the terminal shows.
    typer.echo(f"\r{words}" if sys.stderr.isatty() else words, err=True)


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
