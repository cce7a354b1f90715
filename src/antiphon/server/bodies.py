"""The bodies of requests: how large they may be on a route, and where they are read.

Every route that takes one has its row in the table of routes, which says how large it may be. A large one is read in a thread,
whatever the route: to decode it takes long, and the event loop is everybody's.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from aiohttp import web
from msgspec import Struct

from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.core.protocols.responses.read import read_struct, unknown_notices
from antiphon.errors import BodyTooLarge, counted
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.server.answers import notice_header
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

# Far more than names, metadata and lists of ids have.
SMALL_BODY = 1024 * 1024
TOO_LARGE = "The body is larger than {most}, which is the most that this path takes."


class Fields(NamedTuple, Generic[S]):
    value: S
    # The header with the notice about what the body has beside them.
    notices: dict[str, str]
    # What is done with it is done in a thread, too.
    is_large: bool


class Bodies(Struct, frozen=True):
    """The bodies that a route takes."""

    # In bytes. None: as many as the setting `max_body_bytes` says.
    largest: int | None = None

    def read(self, request: web.Request) -> Coroutine[Any, Any, bytes]:
        """Raises BodyTooLarge as soon as that is known. No coroutine of its own where the settings alone have a limit."""
        # That of the settings has words of its own.
        if self.largest is None or 0 < request.client_max_size <= self.largest:
            return request.read()
        return self._read_small(request, self.largest)

    async def _read_small(self, request: web.Request, largest: int) -> bytes:
        if (length := request.content_length) is None or "Content-Encoding" in request.headers:
            return await _read_within(request, largest)
        if length > largest:
            raise _too_large(largest)
        return await request.read()

    async def read_fields(self, request: web.Request, kind: type[S], check: "Check[S] | None" = None) -> Fields[S]:
        """The fields of the body. `check`: what else is to be checked of them."""
        body, limits = await self.read(request) or b"{}", request.app[APP].gateway.environment.limits
        is_large = len(body) >= LARGE_BODY
        return await in_turn(request, partial(_to_fields, body, kind, limits, check), large=is_large)


# Only small bodies make sense: names, metadata, lists of ids, queries.
SMALL = Bodies(SMALL_BODY)
# Items of a conversation, prompts, images.
LARGE = Bodies()
Check = Callable[[S, RequestLimits], None]


async def in_turn(request: web.Request, work: Callable[[], T], *, large: bool) -> T:
    """Work on a body. Owners take turns with large ones, and a thread does it."""
    return work() if not large else await request.app[APP].gateway.aside(work, request[OWNER], large=True)


def _to_fields(body: bytes, kind: type[S], limits: RequestLimits, check: Check[S] | None) -> Fields[S]:
    value, unknown = read_struct(body, kind, limits)
    if check is not None:
        check(value, limits)
    return Fields(value, notice_header(unknown_notices(unknown)), len(body) >= LARGE_BODY)


async def _read_within(request: web.Request, most: int) -> bytes:
    """A body that says nothing about its length, or is compressed, is refused while it comes."""
    pieces, size = [], 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > most:
            raise _too_large(most)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(TOO_LARGE.format(most=counted(most, "byte")))
