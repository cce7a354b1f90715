"""The other worker processes of this gateway. Each serves its routes also at a Unix socket, which only this user can open.

A request that needs another process is sent there as it came, with its key: what its owner may see is decided there, as always.
Without other processes there is nothing here.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
from aiohttp import hdrs, web
from multidict import CIMultiDict
from yarl import URL

from antiphon.errors import NotFound
from antiphon.server.request_state import FROM_SIBLING, STATE, is_from_sibling

# Seconds that another process may take to say what it knows.
DEADLINE = 5.0
# Headers of one connection, not of the message.
OF_CONNECTION = frozenset(
    name.lower() for name in (hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.TRANSFER_ENCODING, hdrs.UPGRADE, hdrs.TE, hdrs.TRAILER)
)


class Sibling(NamedTuple):
    slot: int
    pid: int
    path: str


async def _nothing() -> list[bytes]:
    return []


class Siblings:
    def __init__(self, slot: int = 0, supervisor: int | None = None) -> None:
        self.slot = slot
        # None: this is the only process of the gateway.
        self.supervisor = supervisor
        self.others: tuple[Sibling, ...] = ()
        # The metrics of processes that have ended, or are about to.
        self.departed: Callable[[], Awaitable[list[bytes]]] = _nothing

    @property
    def pids(self) -> dict[int, int]:
        """Of all processes, by slot."""
        return dict(sorted([(self.slot, os.getpid()), *((each.slot, each.pid) for each in self.others)]))

    def asked_by(self, request: web.Request) -> tuple[Sibling, ...]:
        """Those whose answers belong to the answer to this request: none, if one of them has sent it."""
        return () if is_from_sibling(request) else self.others

    async def answers(self, request: web.Request, path: str | None = None) -> list[bytes]:
        """What each of the others answers to the same request, or at another path. One that does not answer in time is left
        out."""
        others = self.asked_by(request)
        if not others:
            return []
        found = await asyncio.gather(*(self._body(each, request, path) for each in others))
        return [body for body in found if body is not None]

    async def objects(self, request: web.Request, path: str | None = None) -> list[Any]:
        """The same, of answers in JSON."""
        return [msgspec.json.decode(body) for body in await self.answers(request, path)]

    async def _body(self, sibling: Sibling, request: web.Request, path: str | None) -> bytes | None:
        try:
            async with asyncio.timeout(DEADLINE), _sent(sibling, request, path=path) as answer:
                return await answer.read() if answer.ok else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    def in_slot(self, slot: int) -> Sibling | None:
        return next((each for each in reversed(self.others) if each.slot == slot), None)

    async def relay_found(self, request: web.Request, missing: NotFound) -> web.StreamResponse:
        """The answer of the one that has what this process does not have. Raises `missing` if none of them has it."""
        for sibling in self.asked_by(request):
            try:
                async with _sent(sibling, request) as answer:
                    if answer.ok:
                        return await _passed_on(request, answer)
            except (aiohttp.ClientConnectorError, FileNotFoundError):
                continue
        raise missing

    async def relay(self, request: web.Request, sibling: Sibling, body: bytes | None = None) -> web.StreamResponse:
        """Its answer to this request, whatever it is. `body`: if it has been read. Raises aiohttp's errors."""
        async with _sent(sibling, request, body if body is not None else request.content) as answer:
            return await _passed_on(request, answer)

    async def stream(self, request: web.Request, sibling: Sibling) -> AsyncIterator[bytes]:
        """The pieces of its answer, as they come."""
        try:
            async with _sent(sibling, request) as answer:
                async for piece in answer.content.iter_any():
                    yield piece
        except (aiohttp.ClientError, OSError):
            # It has ended, or is about to.
            return


@asynccontextmanager
async def _sent(
    sibling: Sibling, request: web.Request, body: Any = None, path: str | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    headers = _of_message(request.headers)
    headers[FROM_SIBLING] = "1"
    # One id in the logs of both.
    headers["x-request-id"] = request[STATE].id
    timeout = aiohttp.ClientTimeout(total=None)
    url = URL(f"http://sibling{path or request.rel_url.raw_path_qs}", encoded=True)
    if isinstance(body, bytes) or body is None:
        headers.pop(hdrs.CONTENT_LENGTH, None)
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(sibling.path), timeout=timeout, auto_decompress=False) as session,
        session.request(request.method, url, headers=headers, data=body, allow_redirects=False) as answer,
    ):
        yield answer


def _of_message(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in OF_CONNECTION)


async def _passed_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_of_message(answer.headers))
    await response.prepare(request)
    async for piece in answer.content.iter_any():
        await response.write(piece)
    await response.write_eof()
    return response


# ---- Lists and live rows of all worker processes of a gateway, as if one had them ------------------------------------

T = TypeVar("T")

END_OF_FRAME = b"\n\n"


def to_plain(value: Any) -> Any:
    """As it comes from another process: what JSON has, and nothing else."""
    return msgspec.to_builtins(value)


def merge_newest(
    lists: Sequence[tuple[Sequence[Mapping[str, Any]], bool]], limit: int, order: Callable[[Mapping[str, Any]], Any]
) -> tuple[list[Mapping[str, Any]], bool]:
    """The newest of all, and whether there are more. Each list is one process's: its newest, and whether it has more."""
    rows = sorted((row for rows, _ in lists for row in rows), key=order, reverse=True)
    return rows[:limit], len(rows) > limit or any(has_more for _, has_more in lists)


def added_up(objects: Iterable[Mapping[str, Any]], *names: str) -> dict[str, Any]:
    """The sums of these members."""
    objects = list(objects)
    return {name: sum(each[name] for each in objects) for name in names}


@asynccontextmanager
async def sibling_frames(siblings: Siblings, request: web.Request, show: Callable[[bytes], None]) -> AsyncIterator[None]:
    """Calls `show` with whole frames of server-sent events that the other processes answer to the same request."""

    async def follow(sibling: Sibling) -> None:
        buffered = b""
        async for piece in siblings.stream(request, sibling):
            whole, end, buffered = (buffered + piece).rpartition(END_OF_FRAME)
            if whole and (frames := _without_comments(whole + end)):
                show(frames)

    following = [asyncio.create_task(follow(each)) for each in siblings.asked_by(request)]
    try:
        yield
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


def _without_comments(frames: bytes) -> bytes:
    """Signs of life are for the process that asked."""
    kept = (frame for frame in frames.split(END_OF_FRAME) if frame and not frame.startswith(b":"))
    return b"".join(frame + END_OF_FRAME for frame in kept)
