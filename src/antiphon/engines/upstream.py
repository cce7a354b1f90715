"""One engine over HTTP: chat requests out, byte streams in, and every failure as one of our errors."""

import asyncio
import base64
import itertools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME, PLAIN
from antiphon.core.knowledge.failures import http_answer_to_error
from antiphon.core.knowledge.knowledge import EngineKnowledge, Loading, Model
from antiphon.core.knowledge.retry_advice import headers_to_advice
from antiphon.core.prompt.convert import chat_to_bytes
from antiphon.engines.affinity import NO_ROUTING
from antiphon.engines.bodies import LimitedReceiver, TooLarge, read_document, read_refusal
from antiphon.engines.detection import LARGEST_DESCRIPTION, MODELS, EngineDocuments, detect, list_models
from antiphon.engines.trace_context import trace_headers
from antiphon.errors import UNREADABLE, ApiError, EngineDisagrees, EngineError, EngineStalled, EngineUnavailable
from antiphon.transport import (
    CLOSE_CONNECTION,
    Answer,
    Endpoint,
    EndpointOptions,
    NotHttp,
    NotReachable,
    Receiver,
    Stale,
    next_piece,
    transport_of,
)
from antiphon.wire.chat import ChatRequest

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


# A longer Retry-After of an engine is not waited for here, but passed on to the client.
LONGEST_RETRY_WAIT = 5.0
RETRIED = frozenset({408, 429, 502, 503, 504})
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

# What a server answers that is not used as an engine → why, and what to do.
UNUSABLE: Mapping[int, str] = {
    401: "wants an API key, or rejects the one that it got (HTTP 401). Check --upstream-key.",
    502: "is not there yet: the proxy in front of it answers HTTP 502.",
    # llama.cpp, too, as long as it loads its model. It does not say how far it is.
    503: "is not ready yet (HTTP 503). It may be loading its model.",
    504: "is not there yet: the proxy in front of it answers HTTP 504.",
}
NOT_AN_ENGINE = "does not answer /v1/models as an engine does (HTTP {status}). Check --upstream."
# A redirect is never followed: the prompt and the key are for the engine that the settings name, and nobody else.
REDIRECTS = "redirects to {location} (HTTP {status}), which is not followed. Set --upstream to the engine's own address."
REDIRECT_CODE = "engine_redirect"


@asynccontextmanager
async def ours(root: str) -> AsyncIterator[None]:
    """Everything that can go wrong on the connection to an engine, as one of our errors."""
    try:
        yield
    except FOREIGN_KINDS as foreign:
        raise connection_to_error(foreign, root) from foreign


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


class Reply:
    """An engine's answer, its status known to be good, its body still to be read."""

    __slots__ = ("_answer", "_engine", "_given_up")

    def __init__(self, engine: "Engine", answer: Answer) -> None:
        self._engine = engine
        self._answer = answer
        self._given_up = False

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


class Refused(Exception):
    """An attempt without an answer. `may_pass`: another attempt may succeed."""

    def __init__(self, error: ApiError, *, may_pass: bool, retry_after: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.may_pass = may_pass
        self.retry_after = retry_after


class EngineOptions(Struct, frozen=True):
    # The API key of the engine.
    key: str | None = None
    # The name of its dialect. None: detected.
    dialect: str | None = None
    # Seconds to connect, and until the first byte of an answer.
    connect_timeout: float = 5.0
    first_byte_timeout: float = 900.0
    # Seconds that an answer which is passed through may pause.
    idle_timeout: float = 300.0
    # Further attempts before the first byte of an answer.
    retries: int = 2
    # The text of the chat template, for an engine that does not show it.
    chat_template: str | None = None


async def _nothing_to_ask(engine: "Engine") -> None:
    """For an engine that nobody examines."""


class Engine:
    """One engine: what is known of it, and how it is asked."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        options: EngineOptions = EngineOptions(),  # noqa: B008
        *,
        host: str | None = None,
    ) -> None:
        """`host`: the name, and the port, that the engine is asked by, where the URL has one of several addresses of it."""
        # As it is shown, too: without the credentials that the address may have.
        self.root, credentials = split_credentials(url.rstrip("/").removesuffix("/v1"))
        self.knowledge = EngineKnowledge(BY_NAME[options.dialect] if options.dialect else PLAIN, name=self.root)
        self.version: str | None = None
        self.ready = False
        # Awaited when the engine has been found, before it is ready: at the start, and when it comes back, or is another one.
        self.when_found: Callable[[Engine], Awaitable[None]] = _nothing_to_ask
        # Called before a request for this model is made for it. What it returns has to be awaited first.
        self.when_asked_for: Callable[[Engine, str], Awaitable[object] | None] = lambda engine, model: None
        # Called before a request with tools is sent to this model, if a probe is about to show whether it sees them. The same.
        self.when_offered_tools: Callable[[Engine, str], Awaitable[object] | None] = lambda engine, model: None
        # A server answers there, but cannot be used: the reason, as the rest of a sentence.
        self.unusable: str | None = None
        # No server answers there: the reason, in a few words.
        self.silence: str | None = None
        # It accepts connections, but does not answer when it is asked how it is: the reason. It is asked last.
        self.unhealthy: str | None = None
        # It runs in a process of this gateway, which reports for itself how its start goes.
        self.is_embedded = False
        # What its process reports of its start. None: nothing.
        self.loading: Loading | None = None
        # It answers with redirects: only other settings can help.
        self.redirects = False
        self._away = True
        self._session = session
        self._options = options
        self._headers = {"Content-Type": "application/json"}
        # The key is for all engines, credentials in an address are for this one.
        self.authorization = credentials or (f"Bearer {options.key}" if options.key else None)
        if self.authorization:
            self._headers["Authorization"] = self.authorization
        self.host = host
        if host is not None:
            self._headers["Host"] = host
        # For TLS, where it is not that of the URL.
        self.server_name = urlsplit(f"//{host}").hostname if host is not None and self.root.startswith("https:") else None
        self._chat = self._open_chat_endpoint()
        self._detecting: asyncio.Task[None] | None = None

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def dialect(self) -> Dialect:
        return self.knowledge.dialect

    @property
    def models(self) -> tuple[Model, ...]:
        return self.knowledge.models

    @property
    def slots(self) -> int | None:
        """How many requests it processes at once, by what it reports; None: it does not say, or takes any number."""
        return max((model.slots for model in self.models if model.slots is not None), default=None)

    @property
    def chat_template(self) -> str | None:
        return self._options.chat_template

    async def identify(self) -> None:
        """Finds out what the engine is, once; requests that come meanwhile wait for the same answer."""
        if self.ready:
            return
        if self._detecting is None:
            self._detecting = asyncio.create_task(self._detect())
            self._detecting.add_done_callback(lambda _: setattr(self, "_detecting", None))
        await asyncio.shield(self._detecting)

    async def _detect(self) -> None:
        documents = self.documents()
        found = await detect(documents, lists_models=False)
        if found is None:
            self._away = True
            self.unusable = _why_unusable(documents)
            self.silence = documents.silence if self.unusable is None else None
            self.redirects = documents.location(MODELS) is not None
            return
        self.unusable, self.silence, self.redirects, self.unhealthy = None, None, False, None
        known = {model.id for model in self.models}
        # After a lost connection it may be the same engine as before.
        is_new = self._away or known != {model.id for model in found.models}
        self._away = False
        self.knowledge.models, self.version = found.models, found.version
        self.knowledge.takes_any_model = not found.models
        if not self._options.dialect:
            self.knowledge.dialect = found.dialect
        if is_new:
            await self.when_found(self)
        self.ready = True

    async def read_models(self) -> None:
        """Finds out whether it has other models by now."""
        if not self.ready:
            return
        listed = await list_models(self.documents())
        if listed is not None and {model["id"] for _, model in listed} != {model.id for model in self.models}:
            await self._detect()

    @property
    def up(self) -> bool:
        return self.ready and self.unhealthy is None

    async def look(self, path: str, within: float, *, method: str = "GET") -> tuple[int, bytes]:
        """The status of a small document, and its body. Raises what the connection does, or TimeoutError."""
        timeout = aiohttp.ClientTimeout(total=within, sock_connect=within / 2)
        async with self._session.request(
            method,
            self.root + path,
            headers=self._headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self.server_name,
        ) as answer:
            return answer.status, await read_document(answer, LARGEST_DESCRIPTION)

    def documents(self) -> EngineDocuments:
        return EngineDocuments(self._session, self.root, self._headers, self.server_name)

    def lost(self) -> None:
        """It broke off or is gone: it is identified again before it is used."""
        self.ready = False

    def moved(self, url: str) -> None:
        self.root = self.knowledge.name = url
        self._chat = self._open_chat_endpoint()
        self.lost()

    def progressed(self, loading: Loading) -> None:
        self.loading = loading

    async def close(self) -> None:
        """Ends a detection that is still running: it must not outlive its session."""
        if self._detecting is not None:
            self._detecting.cancel()
            await asyncio.wait({self._detecting})

    # ---- asking it ---------------------------------------------------------------------------------------------------

    async def open_chat(self, chat: ChatRequest, headers: Mapping[str, str] = NO_ROUTING) -> Reply:
        """Posts a chat request and waits for its status. Tried again only before the first byte of an answer.
        `headers`: beside the engine's own."""
        for attempt in itertools.count():
            try:
                return await self._try_chat(chat, headers)
            except Refused as refused:
                wait = refused.retry_after if refused.retry_after is not None else _back_off(attempt)
                if not refused.may_pass or wait > LONGEST_RETRY_WAIT or attempt >= self._options.retries:
                    raise refused.error from None
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _try_chat(self, chat: ChatRequest, headers: Mapping[str, str]) -> Reply:
        try:
            sent = {**trace_headers(), **headers}
            answer = await self._chat.post(chat_to_bytes(chat), sent, keep=self.dialect.keeps_connections)
        except FOREIGN_KINDS as foreign:
            raise self._no_answer(foreign) from foreign
        if answer.status == 200:
            return Reply(self, answer)
        if is_redirect(answer.status):
            answer.close()
            raise redirect_to_error(self.root, answer)
        advice = headers_to_advice(answer.headers, time.time())
        error = http_answer_to_error(answer.status, await read_refusal(answer), advice.after, should_retry=advice.wanted)
        may_pass = answer.status in RETRIED if advice.wanted is None else advice.wanted
        raise Refused(error, may_pass=may_pass, retry_after=advice.after)

    def _no_answer(self, foreign: Exception) -> Exception:
        error = connection_to_error(foreign, self.root)
        if not isinstance(error, EngineUnavailable):
            return error
        if isinstance(foreign, Stale):
            # It says nothing about the engine, which is asked at once on a new connection.
            return Refused(error, may_pass=True, retry_after=0.0)
        self.lost()
        return Refused(error, may_pass=True)

    def _open_chat_endpoint(self) -> Endpoint:
        options = self._options
        chosen = EndpointOptions(
            self.root + "/v1/chat/completions",
            self._headers,
            options.connect_timeout,
            options.first_byte_timeout,
            self.server_name,
        )
        return transport_of(self._session).open_endpoint(self._session, chosen)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] = NO_ROUTING) -> aiohttp.ClientResponse:
        """Waits for the head of the answer. Tried once more, on a new connection, if the first one is lost before a byte of the
        answer comes: most likely it was kept, and the engine had closed it before it got this request."""
        if not self.dialect.keeps_connections:
            headers = {**CLOSE_CONNECTION, **headers}
        async with ours(self.root), asyncio.timeout(self._options.first_byte_timeout):
            try:
                answer = await self._try_post(path, body, headers)
            except LOST as lost:
                if self._options.retries < 1 or not _came_before_answer(lost):
                    raise
                answer = await self._try_post(path, body, {**headers, **CLOSE_CONNECTION})
        if is_redirect(answer.status):
            answer.close()
            raise redirect_to_error(self.root, answer)
        return answer

    async def _try_post(self, path: str, body: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        return await self._session.post(
            self.root + path,
            data=body,
            headers={**self._headers, **trace_headers(), **headers},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._options.connect_timeout),
            allow_redirects=False,
            server_hostname=self.server_name,
        )

    async def pieces(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The body of an answer to `post`, as it comes."""
        within = self._options.first_byte_timeout
        while data := await self._next_piece(answer, within):
            yield data
            within = self._options.idle_timeout

    async def _next_piece(self, answer: aiohttp.ClientResponse, within: float) -> bytes:
        async with ours(self.root):
            return await next_piece(answer, within)

    async def count_tokens(self, text: str, model: str) -> int | None:
        """By the engine's own tokenizer, where it has an endpoint for it."""
        tokenizer = self.dialect.tokenizer
        if tokenizer is None:
            return None
        body = msgspec.json.encode({tokenizer.text_key: text, "model": model})
        try:
            async with ours(self.root), asyncio.timeout(2):
                answer = await self.post(tokenizer.path, body)
                value = msgspec.json.decode(await read_document(answer))
            tokens = value.get(tokenizer.tokens_key) if isinstance(value, dict) else None
            return len(tokens) if isinstance(tokens, list) else None
        except (ApiError, *UNREADABLE):
            return None


def _came_before_answer(lost: Exception) -> bool:
    """Not if the connection was never made, or if the beginning of an answer has come, which aiohttp puts into its error."""
    is_begun = isinstance(lost, aiohttp.ServerDisconnectedError) and not isinstance(lost.message, str)
    return not is_begun and not isinstance(lost, NEVER_MADE)


def _back_off(attempt: int) -> float:
    return 0.1 * 4.0**attempt


def _why_unusable(documents: EngineDocuments) -> str | None:
    """Of a server whose answer to a request for its models is not that of an engine; None: there was no answer."""
    status, location = documents.status(MODELS), documents.location(MODELS)
    if status is None:
        return None
    if location is not None:
        return REDIRECTS.format(location=location_to_words(location), status=status)
    return UNUSABLE.get(status, NOT_AN_ENGINE.format(status=status))
