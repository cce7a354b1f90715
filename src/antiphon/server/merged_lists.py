"""Lists and live rows of all worker processes of a gateway, as if one had them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from antiphon.server.siblings import SIBLINGS, Sibling

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
async def sibling_frames(request: web.Request, show: Callable[[bytes], None]) -> AsyncIterator[None]:
    """Calls `show` with whole frames of server-sent events that the other processes answer to the same request."""
    siblings = request.app[SIBLINGS]

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
