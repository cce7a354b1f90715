"""What an engine answers: the reply whose body is read, and every failure of the connection as one of our errors."""

import asyncio
import base64
import re
from types import TracebackType
from typing import NamedTuple, Protocol
from urllib.parse import unquote

import aiohttp
from msgspec import Struct

from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.engines.bodies import LimitedReceiver, TooLarge
from antiphon.errors import ApiError, EngineDisagrees, EngineError, EngineStalled, EngineUnavailable
from antiphon.transport import Answer, NotHttp, NotReachable, Receiver

# ---- addresses of engines --------------------------------------------------------------------------------------------
# A password in one is sent to the engine, and never shown: not in errors, logs, headers or `/ready`.

# The beginning of an address: `user:password@` may stand before the host, with or without a scheme.
_CREDENTIALS = re.compile(r"(?P<scheme>(?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?(?P<credentials>[^/?#]*)@")
LONGEST_LOCATION = 200


class Address(NamedTuple):
    # Without credentials.
    url: str
    # The header that they become.
    authorization: str | None = None


def split_credentials(url: str) -> Address:
    found = _CREDENTIALS.match(url)
    if found is None:
        return Address(url)
    scheme = found["scheme"] or ""
    user, _, password = found["credentials"].partition(":")
    credentials = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode(errors="replace")).decode()
    return Address(scheme + url[found.end() :], f"Basic {credentials}")


def location_to_words(location: str) -> str:
    """The target of a redirect as a person may see it: without credentials, and without a query, which may have a token."""
    url = re.split("[?#]", split_credentials(location.strip()).url, maxsplit=1)[0]
    plain = "".join(letter if "!" <= letter <= "~" else "?" for letter in url)
    return plain[:LONGEST_LOCATION] or "nowhere"


# ---- foreign errors ---------------------------------------------------------------------------------------------------

# How long the end of a stream may take, in seconds, before its connection is closed instead of kept.
TAIL = 0.25

# Foreign errors → ours, first match first. The reading of an answer and the opening of it meet the same ones.
FOREIGN: tuple[tuple[type[Exception], type[EngineError], str], ...] = (
    (aiohttp.ConnectionTimeoutError, EngineUnavailable, "The engine at {root} did not answer in time."),
    (aiohttp.ServerDisconnectedError, EngineUnavailable, "The engine at {root} closed the connection."),
    (NotReachable, EngineUnavailable, "The engine at {root} is not reachable."),
    (aiohttp.ClientConnectorError, EngineUnavailable, "The engine at {root} is not reachable."),
    (NotHttp, EngineDisagrees, "The engine at {root} did not answer as an HTTP server does."),
    (TooLarge, EngineDisagrees, "The compressed answer of the engine at {root} is too large."),
    (aiohttp.ClientPayloadError, EngineError, "The connection to the engine was cut."),
    (aiohttp.ClientConnectionError, EngineUnavailable, "The connection to the engine was lost."),
    (asyncio.TimeoutError, EngineStalled, "The engine at {root} did not answer in time."),
    (aiohttp.InvalidURL, EngineUnavailable, "{root} is not an address of an engine."),
    (aiohttp.ClientError, EngineDisagrees, "The engine at {root} did not answer as an HTTP server does."),
    (OSError, EngineUnavailable, "The connection to the engine at {root} failed."),
    # What aiohttp raises for a read on a connection that has just been closed.
    (RuntimeError, EngineError, "The connection to the engine was cut."),
)
FOREIGN_KINDS = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
# A connection that was lost before a byte of the answer came, as aiohttp raises it; and one that was never made.
LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientConnectionResetError)
NEVER_MADE = aiohttp.ClientConnectorError
# Those of them that no other attempt can do anything about.
FUTILE = (aiohttp.InvalidURL, TooLarge)

# A redirect is never followed: the prompt and the key are for the engine that the settings name, and nobody else.
REDIRECTS = "redirects to {location} (HTTP {status}), which is not followed. Set --upstream to the engine's own address."
REDIRECT_CODE = "engine_redirect"


class ours:
    """Everything that can go wrong on the connection to an engine, as one of our errors."""

    # Two for each request that is passed through: a generator in its place takes five times as many instructions.
    __slots__ = ("_root",)

    def __init__(self, root: str) -> None:
        self._root = root

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, foreign: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(foreign, FOREIGN_KINDS):
            raise connection_to_error(foreign, self._root) from foreign


def connection_to_error(foreign: BaseException, root: str) -> ApiError:
    for kind, error, message in FOREIGN:
        if isinstance(foreign, kind):
            may_pass = not isinstance(foreign, FUTILE)
            return error(message.format(root=root), retry_after=1 if may_pass else None, may_pass=may_pass)
    return EngineDisagrees(f"The engine at {root} did not answer as an HTTP server does.", retry_after=1)


def is_redirect(status: int) -> bool:
    return 300 <= status < 400


def redirect_to_error(root: str, answer: aiohttp.ClientResponse | Answer) -> EngineError:
    location = location_to_words(answer.headers.get("Location", ""))
    words = REDIRECTS.format(location=location, status=answer.status)
    return EngineError(f"The engine at {root} {words}", code=REDIRECT_CODE, may_pass=False)


# ---- replies ---------------------------------------------------------------------------------------------------------


class Asked(Protocol):
    """The engine that has replied."""

    root: str
    knowledge: EngineKnowledge

    def lost(self) -> None: ...


class Reply(Struct, eq=False):
    """An engine's answer, its status known to be good, its body still to be read."""

    _engine: Asked
    _answer: Answer
    _given_up: bool = False

    def push(self, receiver: Receiver) -> None:
        compressed = "Content-Encoding" in self._answer.headers
        self._answer.push(LimitedReceiver(receiver, self._answer.pause) if compressed else receiver)

    def error(self, foreign: BaseException) -> ApiError:
        """What ended the body, as one of our errors."""
        if not self._given_up:
            self._engine.lost()
        return connection_to_error(foreign, self._engine.root)

    def pause(self) -> None:
        self._answer.pause()

    def resume(self) -> None:
        self._answer.resume()

    def close(self) -> None:
        """Ends the engine's work at once."""
        self._given_up = True
        self._answer.discard()

    def release(self) -> bool:
        """Keeps the connection for the next request if the body ends in a moment, or closes it if the engine does not keep it.
        False: the caller has to await `finish()` for that."""
        if not self._engine.knowledge.dialect.keeps_connections:
            self.close()
            return True
        return self._answer.release(TAIL)

    async def finish(self) -> None:
        """Keeps the connection for the next request if the body ends in a moment."""
        await self._answer.finish(TAIL)
