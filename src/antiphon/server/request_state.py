"""What every request has, from its arrival to its line in the log: an id, an owner, and what is logged of it."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from aiohttp import web
from msgspec import Struct, field
from multidict import istr

from antiphon import __version__
from antiphon.gateway.usage.model_names import OTHER
from antiphon.ids import new_id
from antiphon.logs import log, logger
from antiphon.patterns import late_pattern
from antiphon.server.metrics.instruments import Amount, Instruments
from antiphon.server.paths import canonical_path
from antiphon.transport import AnswerError

# How a request of an API that engines have, too, is answered: read and checked here, or passed to an engine as it came. The
# setting `chat` has the same names.
Way = Literal["reliable", "pass"]


class RequestState(Struct, eq=False):
    """What is known of a request from its arrival to its line in the log."""

    id: str
    began: float = field(default_factory=time.perf_counter)
    # For the log.
    logged: dict[str, Any] = {}
    # The whole answer has been written, or a WebSocket waits for none, whatever becomes of the connection.
    finished: bool = False
    # The answer whose head has been sent, or is about to be.
    started: web.StreamResponse | None = None
    # As OWNER. None: its key has not been checked.
    owner: str | None = None
    # None: there is only one.
    way: Way | None = None


STATE = web.RequestKey("request_state", RequestState)
# Whose request it is: the name of its key; a hash of it, if it has no name; "" if no keys are set. What one owner has stored no
# other can see, except for the admin key.
OWNER = web.RequestKey("owner", str)
REQUEST_ID = istr("x-request-id")
# The ids that a client may give its request. Anything else could forge a line in a log.
_SANE_ID = late_pattern(r"[A-Za-z0-9_.:-]{1,128}")
# Health checks come from machines that have no key; who reads the metrics has a key that is for nothing else.
OPEN_PATHS = frozenset({"/health", "/ready", "/metrics"})
# Marks a request that another worker process sent here: it is answered by this one alone.
FROM_SIBLING = istr("antiphon-from-worker")
# Of every answer.
SERVER = f"antiphon/{__version__}"
# The page of the inspector is the same for everybody: what it shows, it fetches with a key.
PAGE, PAGE_FILES = "/", "/inspector/page/"
# What is about the gateway itself.
INSPECTOR = "/inspector/"


def log_request(request: web.BaseRequest, state: RequestState, status: int) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    log(
        "request",
        level=logging.DEBUG if is_quiet(request.path) else logging.INFO,
        request_id=state.id,
        method=request.method,
        path=request.path,
        status=status,
        seconds=round(time.perf_counter() - state.began, 4),
        **state.logged,
    )


def add_to_log(request: web.BaseRequest, members: Callable[[], Mapping[str, Any]]) -> None:
    """To the line about the request. `members` is called only if that line will be written."""
    if logger.isEnabledFor(logging.INFO):
        request[STATE].logged.update(members())


def is_quiet(path: str) -> bool:
    """Whether it is asked for again and again, by programs that look after the gateway."""
    return path in OPEN_PATHS or path.startswith(INSPECTOR)


def identify(request: web.BaseRequest, headers: Mapping[str, str]) -> RequestState:
    given = headers.get(REQUEST_ID)
    state = RequestState(given if given is not None and _SANE_ID.fullmatch(given) else new_id("req"))
    request[STATE] = state
    return state


def is_open(path: str) -> bool:
    """Whether it is served without a key."""
    return path in OPEN_PATHS or path == PAGE or path.startswith(PAGE_FILES)


def is_from_sibling(request: web.Request) -> bool:
    """Only another process of this gateway connects through a Unix socket: the header alone could come from anybody."""
    if FROM_SIBLING not in request.headers or request.transport is None:
        return False
    return not isinstance(request.transport.get_extra_info("sockname"), tuple)


# The route of what no route has, and of what is no HTTP.
UNKNOWN, UNREADABLE = "unknown", "unreadable"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Exposed(NamedTuple):
    instruments: Instruments
    # The paths that are also served under other prefixes, and counted as one.
    api: frozenset[str]
    # By resource, method and status: to look one up by its labels takes longer than to count.
    counters: dict[tuple[object, str, int], Amount]


# ---- requests --------------------------------------------------------------------------------------------------------


def count_request(request: web.Request, exposed: Exposed | None, status: int) -> None:
    """None: nothing is counted."""
    # What another worker process asks for is counted there.
    if exposed is None or (FROM_SIBLING in request.headers and is_from_sibling(request)):
        return
    method = request.method if request.method in METHODS else OTHER
    key = request.match_info.route.resource, method, status
    counter = exposed.counters.get(key)
    if counter is None:
        labels = _route(request, exposed.api), method, str(status)
        counter = exposed.counters[key] = exposed.instruments.http_requests.labels(*labels)
    counter.value += 1


def counting_unrouted(instruments: Instruments, answer_error: AnswerError) -> AnswerError:
    """Answers as `answer_error` does."""

    def answer(request: web.BaseRequest, error: BaseException | None) -> web.Response:
        response = answer_error(request, error)
        instruments.http_requests.labels(UNREADABLE, OTHER, str(response.status)).value += 1
        return response

    return answer


def _route(request: web.Request, api: frozenset[str]) -> str:
    resource = request.match_info.route.resource
    if resource is None:
        return UNKNOWN
    path = canonical_path(request)
    return path if path in api else resource.canonical
