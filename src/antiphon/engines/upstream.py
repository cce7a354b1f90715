"""One engine over HTTP: chat requests out, byte streams in, and every failure as one of our errors."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import msgspec
from msgspec import UNSET

from antiphon.core.dialect import Dialect
from antiphon.core.failures import failure_to_error, http_answer_to_failure
from antiphon.core.request import chat_to_bytes
from antiphon.dialects import BY_NAME, PLAIN
from antiphon.engines.detection import Model, Prober, detect
from antiphon.errors import ApiError, EngineDisagrees, EngineError, EngineStalled, EngineUnavailable
from antiphon.settings import Settings
from antiphon.transport import Receiver, transport_of
from antiphon.wire import UNREADABLE
from antiphon.wire.chat import ChatRequest

LARGEST_ERROR = 64 * 1024
# Nobody waits longer for an engine that asks for patience; a longer Retry-After is passed on to the client.
LONGEST_WAIT = 5.0
RETRIED = frozenset({408, 429, 502, 503, 504})
# How long the end of a stream may take before its connection is given up rather than kept for the next request.
TAIL = 0.25

# Foreign errors → ours, first match first. The reading of an answer and the opening of it meet the same ones.
FOREIGN: tuple[tuple[type[Exception], type[EngineError], str], ...] = (
    (aiohttp.ConnectionTimeoutError, EngineUnavailable, "The engine at {root} did not answer in time."),
    (aiohttp.ServerDisconnectedError, EngineUnavailable, "The engine at {root} closed the connection."),
    (aiohttp.ClientConnectorError, EngineUnavailable, "The engine at {root} is not reachable."),
    (aiohttp.ClientPayloadError, EngineError, "The connection to the engine was cut."),
    (aiohttp.ClientConnectionError, EngineUnavailable, "The connection to the engine was lost."),
    (asyncio.TimeoutError, EngineStalled, "The engine at {root} did not answer in time."),
    (aiohttp.InvalidURL, EngineUnavailable, "{root} is not an address of an engine."),
    (aiohttp.ClientError, EngineDisagrees, "The engine at {root} did not answer as an HTTP server does."),
    (OSError, EngineUnavailable, "The connection to the engine at {root} failed."),
    # What aiohttp raises for a read on a connection that has just been closed.
    (RuntimeError, EngineError, "The connection to the engine was cut."),
)


@asynccontextmanager
async def ours(root: str) -> AsyncIterator[None]:
    """Everything that can go wrong on the line to an engine, as one of our errors."""
    try:
        yield
    except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as foreign:
        raise foreign_to_error(foreign, root) from foreign


def foreign_to_error(foreign: BaseException, root: str) -> ApiError:
    for kind, error, message in FOREIGN:
        if isinstance(foreign, kind):
            return error(message.format(root=root), retry_after=1)
    return EngineDisagrees(f"The engine at {root} did not answer as an HTTP server does.", retry_after=1)


class Reply:
    """An engine's answer, its status known to be good, its body still to be read."""

    def __init__(self, engine: "Engine", answer: aiohttp.ClientResponse) -> None:
        self._engine = engine
        self._answer = answer
        self._body = engine.open_body(answer)
        self._given_up = False

    def push(self, receiver: Receiver) -> None:
        self._body.push(receiver)

    async def read(self) -> bytes:
        """All of the body."""
        async with ours(self._engine.root):
            return await self._answer.read()

    def error(self, foreign: BaseException) -> ApiError:
        """What ended the body, as one of our errors."""
        if not self._given_up:
            self._engine.lost()
        return foreign_to_error(foreign, self._engine.root)

    def pause(self) -> None:
        self._body.pause()

    def resume(self) -> None:
        self._body.resume()

    def close(self) -> None:
        """Ends the engine's work at once."""
        self._given_up = True
        self._body.close()

    async def finish(self) -> None:
        """Keeps the connection for the next request if the answer is at its end, or will be in a moment."""
        if self._engine.dialect.keeps_connections:
            await self._body.finish(TAIL)
        else:
            self.close()


class Refused(Exception):
    """An attempt that brought no answer. `may_pass`: another one may fare better."""

    def __init__(self, error: ApiError, *, may_pass: bool, retry_after: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.may_pass = may_pass
        self.retry_after = retry_after


class Engine:
    """One engine, and what is known of it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, settings: Settings) -> None:
        self.root = url.rstrip("/").removesuffix("/v1")
        self.dialect: Dialect = BY_NAME[settings.dialect] if settings.dialect else PLAIN
        self.version: str | None = None
        self.models: tuple[Model, ...] = ()
        self.ready = False
        # Called when the engine has been found: at the start, and when it comes back, or is another one.
        self.when_found: Callable[[Engine], None] = lambda engine: None
        self._away = True
        self._learned: dict[str, dict[str, Any]] = {}
        # Learned from earlier answers: models whose template opens the thought, and whether usage is reported.
        self.opens_thought: set[str] = set()
        self.reports_usage = True
        self._takes_stream_options = True
        self._session = session
        self.open_body = transport_of(session).open_body
        self._settings = settings
        self._headers = {"Content-Type": "application/json"}
        if settings.upstream_key:
            self._headers["Authorization"] = f"Bearer {settings.upstream_key}"
        self._detecting: asyncio.Task[None] | None = None

    # ---- what it is --------------------------------------------------------------------------------------------------

    async def know(self) -> None:
        """Finds out what the engine is, once; requests that come meanwhile wait for the same answer."""
        if self.ready:
            return
        if self._detecting is None:
            self._detecting = asyncio.create_task(self._detect())
            self._detecting.add_done_callback(lambda _: setattr(self, "_detecting", None))
        await asyncio.shield(self._detecting)

    async def _detect(self) -> None:
        found = await detect(self._session, self.root, self._headers)
        if found is None:
            self._away = True
            return
        known = {model.id for model in self.models}
        # A connection that was lost says nothing yet of the engine: it may be the same one, and there all the time.
        is_new = self._away or known != {model.id for model in found.models}
        self._away = False
        self.models, self.version = found.models, found.version
        if not self._settings.dialect:
            self.dialect = found.dialect
        self.ready = True
        if is_new:
            self.when_found(self)

    def prober(self) -> Prober:
        return Prober(self._session, self.root, self._headers)

    def dialect_for(self, model: str) -> Dialect:
        """The dialect with what has been learned of this model, or of its template."""
        learned = self._learned.get(self._meant(model))
        return replace(self.dialect, **learned) if learned else self.dialect

    def learn(self, model: str, facts: Mapping[str, Any]) -> None:
        """Takes facts of the dialect that a probe or a refusal has taught; later ones count."""
        model = self._meant(model)
        self._learned[model] = self._learned.get(model, {}) | dict(facts)

    def _meant(self, model: str) -> str:
        """An engine that has one model answers with it, by whatever name it is asked for."""
        return model if len(self.models) != 1 else self.models[0].id

    def lost(self) -> None:
        """It broke off or is gone: it is asked again what it is before it is used."""
        self.ready = False

    def moved(self, url: str) -> None:
        self.root = url
        self.lost()

    def serves(self, model: str) -> bool:
        return any(known.id == model for known in self.models)

    # ---- asking it ---------------------------------------------------------------------------------------------------

    async def open_chat(self, chat: ChatRequest) -> Reply:
        """Posts a chat request and waits for its status. Tried again only before the first byte of an answer."""
        for attempt in itertools.count():
            if not self._takes_stream_options:
                chat.stream_options = UNSET
            try:
                return await self._try_chat(chat)
            except Refused as refused:
                error = refused.error
                wait = refused.retry_after if refused.retry_after is not None else _back_off(attempt)
                useful = refused.may_pass and wait <= LONGEST_WAIT
            if self._takes_stream_options and "stream_options" in error.message:
                self._takes_stream_options = self.reports_usage = False
            elif useful and attempt < self._settings.retries:
                await asyncio.sleep(wait)
            else:
                raise error
        raise AssertionError("unreachable")

    async def _try_chat(self, chat: ChatRequest) -> Reply:
        try:
            answer = await self.post("/v1/chat/completions", chat_to_bytes(chat))
            if answer.status == 200:
                return Reply(self, answer)
            async with ours(self.root):
                body = await answer.content.read(LARGEST_ERROR)
        except EngineUnavailable as unavailable:
            self.lost()
            raise Refused(unavailable, may_pass=True) from unavailable
        answer.close()
        retry_after = read_retry_after(answer.headers)
        error = failure_to_error(http_answer_to_failure(answer.status, body, retry_after))
        word = answer.headers.get("x-should-retry")
        raise Refused(error, may_pass=word == "true" or (answer.status in RETRIED and word != "false"), retry_after=retry_after)

    async def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_timeout)
        async with ours(self.root):
            async with asyncio.timeout(self._settings.first_byte_timeout):
                return await self._session.post(
                    self.root + path, data=body, headers=self._headers | (headers or {}), timeout=timeout
                )

    async def count_tokens(self, text: str, model: str) -> int | None:
        """By the engine's own tokenizer, where it has an endpoint for it."""
        tokenizer = self.dialect.tokenizer
        if tokenizer is None:
            return None
        body = msgspec.json.encode({tokenizer.text_key: text, "model": model})
        try:
            async with ours(self.root), asyncio.timeout(2):
                answer = await self.post(tokenizer.path, body)
                value = msgspec.json.decode(await answer.read())
            tokens = value.get(tokenizer.tokens_key) if isinstance(value, dict) else None
            return len(tokens) if isinstance(tokens, list) else None
        except (ApiError, *UNREADABLE):
            return None


def _back_off(attempt: int) -> float:
    return 0.1 * 4.0**attempt


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; a date is not read, because no engine sends one."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None
