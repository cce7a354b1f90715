"""How many requests each route has answered, for the metrics."""

from typing import NamedTuple

from aiohttp import web

from antiphon.server.metrics.instruments import OTHER, Amount, Instruments
from antiphon.server.paths import canonical_path
from antiphon.server.siblings import is_from_sibling
from antiphon.transport import AnswerError

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
    if exposed is None or is_from_sibling(request):
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
