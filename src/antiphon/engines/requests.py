"""How an engine is asked over HTTP: chat requests out, other requests out, and what is tried again."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from antiphon.core.knowledge.dialects import BY_NAME, PLAIN
from antiphon.core.knowledge.failures import http_answer_to_error
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.knowledge.retry_advice import headers_to_advice
from antiphon.core.stream.engine_protocols import PROTOCOLS, EngineProtocol
from antiphon.engines.affinity import NO_ROUTING, trace_headers
from antiphon.engines.bodies import read_document, read_refusal
from antiphon.engines.detection import LARGEST_DESCRIPTION, EngineDocuments
from antiphon.engines.replies import (
    FOREIGN_KINDS,
    LOST,
    NEVER_MADE,
    Reply,
    connection_to_error,
    is_redirect,
    ours,
    redirect_to_error,
    split_credentials,
)
from antiphon.errors import UNREADABLE, ApiError, EngineUnavailable
from antiphon.transport import CLOSE_CONNECTION, Answer, Endpoint, EndpointOptions, PieceReader, Stale, transport_of
from antiphon.wire.chat import ChatRequest

# A longer Retry-After of an engine is not waited for here, but passed on to the client.
LONGEST_RETRY_WAIT = 5.0
RETRIED = frozenset({408, 429, 502, 503, 504})


# From so many bytes on, reading a prompt may take long enough to be looked at.
LONG_PROMPT = 8 * 1024
_PROGRESS = b'"return_progress":'


def with_progress(body: bytes) -> bytes:
    """The engine is to report how far it has read the prompt. It is no part of the question: what is recorded is without it."""
    return body if _PROGRESS in body else b"%s,%strue}" % (body[:-1], _PROGRESS)


class Refused(NamedTuple):
    """An attempt without an answer. `may_pass`: another attempt may succeed."""

    error: ApiError
    may_pass: bool
    retry_after: float | None = None


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


class EngineRequests:
    """An engine, as far as it has to be known to be asked."""

    def __init__(self, url: str, session: aiohttp.ClientSession, options: EngineOptions, *, host: str | None) -> None:
        """`host`: the name, and the port, that the engine is asked by, where the URL has one of several addresses of it."""
        # As it is shown, too: without the credentials that the address may have.
        self.root, credentials = split_credentials(url.rstrip("/").removesuffix("/v1"))
        self.knowledge = EngineKnowledge(BY_NAME[options.dialect] if options.dialect else PLAIN, name=self.root)
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

    def lost(self) -> None:
        """It broke off or is gone."""
        raise NotImplementedError

    def documents(self) -> EngineDocuments:
        return EngineDocuments(self._session, self.root, self._headers, self.server_name)

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

    async def open_chat(self, chat: ChatRequest, headers: Mapping[str, str] = NO_ROUTING) -> Reply:
        """Posts a chat request and waits for its status. Tried again only before the first byte of an answer.
        `headers`: beside the engine's own."""
        for attempt in itertools.count():
            dialect = self.knowledge.dialect
            protocol = PROTOCOLS[dialect.protocol]
            try:
                body = protocol.to_bytes(chat)
                if dialect.reports_progress and len(body) >= LONG_PROMPT:
                    body = with_progress(body)
                answer = await self._chat.post(body, {**trace_headers(), **headers}, keep=dialect.keeps_connections)
            except FOREIGN_KINDS as foreign:
                refused = self._no_answer(foreign)
            else:
                if answer.status == 200:
                    return Reply(self, answer)
                refused = await self._read_refusal(answer, protocol)
            wait = refused.retry_after if refused.retry_after is not None else _back_off(attempt)
            if not refused.may_pass or wait > LONGEST_RETRY_WAIT or attempt >= self._options.retries:
                raise refused.error
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _read_refusal(self, answer: Answer, protocol: EngineProtocol) -> Refused:
        """Of an answer that is not good. Raises what is not tried again in any case."""
        if is_redirect(answer.status):
            answer.close()
            raise redirect_to_error(self.root, answer)
        advice = headers_to_advice(answer.headers, time.time())
        error = http_answer_to_error(
            answer.status,
            await read_refusal(answer),
            advice.after,
            should_retry=advice.wanted,
            to_failure=protocol.failure,
        )
        may_pass = answer.status in RETRIED if advice.wanted is None else advice.wanted
        return Refused(error, may_pass=may_pass, retry_after=advice.after)

    def _no_answer(self, foreign: Exception) -> Refused:
        """Raises what is not tried again in any case."""
        error = connection_to_error(foreign, self.root)
        if not isinstance(error, EngineUnavailable):
            raise error from foreign
        if isinstance(foreign, Stale):
            # It says nothing about the engine, which is asked at once on a new connection.
            return Refused(error, may_pass=True, retry_after=0.0)
        self.lost()
        return Refused(error, may_pass=True)

    def _open_chat_endpoint(self) -> Endpoint:
        options = self._options
        chosen = EndpointOptions(
            self.root + PROTOCOLS[self.knowledge.dialect.protocol].path,
            self._headers,
            options.connect_timeout,
            options.first_byte_timeout,
            self.server_name,
        )
        return transport_of(self._session).open_endpoint(self._session, chosen)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] = NO_ROUTING) -> aiohttp.ClientResponse:
        """Waits for the head of the answer. Tried once more, on a new connection, if the first one is lost before a byte of the
        answer comes: most likely it was kept, and the engine had closed it before it got this request."""
        if not self.knowledge.dialect.keeps_connections:
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
        # Around all of them: for each, it would cost as much as the reading itself.
        async with ours(self.root):
            with PieceReader(answer) as reader:
                while data := await reader.next(within):
                    yield data
                    within = self._options.idle_timeout

    async def count_tokens(self, text: str, model: str) -> int | None:
        """By the engine's own tokenizer, where it has an endpoint for it."""
        tokenizer = self.knowledge.dialect.tokenizer
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
