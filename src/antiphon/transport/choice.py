"""Which transport is used."""

import logging
from collections.abc import Callable, Sequence

import aiohttp

from antiphon.logs import log
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import TransportName
from antiphon.transport.interfaces import IDLE_LIMIT, REQUEST_HEADERS, Transport
from antiphon.transport.plain import PLAIN

FindMissing = Callable[[], Sequence[str]]


def find_missing() -> Sequence[str]:
    """What the fast transport needs of aiohttp, and the installed one does not have, or not in the same meaning."""
    try:
        # Not imported before, because the import fails without a name that it needs.
        from antiphon.transport.assumptions import find_changed
    except ImportError as gone:
        return [gone.name or str(gone)]
    return find_changed()


def choose(setting: TransportName, find_missing: FindMissing = find_missing) -> Transport:
    """The fast one, unless the plain one is set or the installed aiohttp lacks what the fast one needs."""
    if setting == "plain":
        return PLAIN
    missing = find_missing()
    if not missing:
        # Not imported before, for the same reason.
        from antiphon.transport.fast import FAST

        return FAST
    if setting == "fast":
        raise SettingsError(
            f"`transport` cannot be fast with aiohttp {aiohttp.__version__}, which lacks {', '.join(missing)}. "
            "Set it to auto or plain, or install another aiohttp."
        )
    log("transport_is_plain", level=logging.WARNING, aiohttp=aiohttp.__version__, missing=list(missing))
    return PLAIN


def make_session(setting: TransportName = "auto", find_missing: FindMissing = find_missing) -> aiohttp.ClientSession:
    """The session for all engines. No limit on connections: the engine itself knows how many requests it can take."""
    return aiohttp.ClientSession(
        connector=choose(setting, find_missing).connector(limit=0, keepalive_timeout=IDLE_LIMIT),
        auto_decompress=True,
        read_bufsize=64 * 1024,
        headers=REQUEST_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def transport_of(session: aiohttp.ClientSession) -> Transport:
    """The transport that the session was made for."""
    transport = getattr(session.connector, "transport", PLAIN)
    assert isinstance(transport, Transport)
    return transport
