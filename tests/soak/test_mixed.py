"""The soak of mixed requests: a small run of it, what it sends, and how its findings are judged."""

import re
from typing import Any

import msgspec
import pytest

from antiphon.server.routes.table import ROUTES
from soak.mixed.__main__ import faults, soak
from soak.mixed.gateway import count_threads
from soak.mixed.requests import LEFT_OUT, SOCKET, Request, Requests
from soak.page import MIXED_TITLE, Mixed, mixed_section, with_section


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_small_run_leaves_nothing_behind() -> None:
    """Its memory is that of a gateway that warms up, which says nothing."""
    found = await soak(count=900, warm_up=600, seed=1)
    found = msgspec.structs.replace(found, after={**found.after, "memory_mb": 0})
    assert faults(found) == []
    assert found.stored["responses"] > 50


def test_every_route_is_asked_and_some_requests_are_hostile() -> None:
    requests = Requests(1, "http://127.0.0.1:9/mcp")
    made = [requests.next() for _ in range(3 * len(ROUTES))]
    wanted = [(route.method, re.sub(r"\{[^}]*\}", "[^/]*", route.path)) for route in ROUTES if route.path not in LEFT_OUT]
    assert [each for each in wanted if not any(is_of(request, *each) for request in made)] == []
    assert any(each.way == SOCKET for each in made)
    assert any(b"[[[[" in (each.body or b"") or "x" * 3000 in each.path for each in made)


def is_of(request: Request, method: str, path: str) -> bool:
    """Hostile ones have something behind their path. Responses are also asked for over a WebSocket."""
    return (request.method == method or request.way == SOCKET) and re.match(path, request.path) is not None


def test_what_was_deleted_is_not_asked_for_again() -> None:
    requests = Requests(1, "http://127.0.0.1:9/mcp")
    requests.ids.add({"id": "resp_1", "object": "response"})
    requests.ids.add({"id": "resp_1", "object": "response", "deleted": True})
    assert not requests.ids.known["response"]


CENSUS: dict[str, float] = {"memory_mb": 180, "descriptors": 60, "threads": 20, "tasks": 16, "temporary": 0}
WELL = Mixed(
    requests=30_000,
    minutes=4,
    outcomes={"HTTP 200": 20_000, "HTTP 400": 10_000},
    wrong={},
    before=CENSUS,
    after={**CENSUS, "memory_mb": 199},
    database_mb=300,
    contents_mb=250,
    stored={"responses": 10_000},
    bugs=0,
)


def test_a_pool_is_one_thread_however_many_it_has() -> None:
    alone = ["MainThread", "Thread-5 (run)", "watcher", "watcher"]
    assert count_threads([*alone, "view_0", "asyncio_0"]) == count_threads([*alone, "view_0", "asyncio_0", "asyncio_1"]) == 6
    assert count_threads([*alone, "view_0", "ThreadPoolExecutor-3_0"]) < count_threads(
        [*alone, "view_0", "ThreadPoolExecutor-3_0", "ThreadPoolExecutor-4_0"]
    )


def test_a_gateway_that_is_as_large_as_before_is_well() -> None:
    assert faults(WELL) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"after": {**CENSUS, "memory_mb": 201}}, "memory"),
        ({"after": {**CENSUS, "descriptors": 61}}, "descriptors"),
        ({"after": {**CENSUS, "threads": 21}}, "threads"),
        ({"after": {**CENSUS, "tasks": 17}}, "tasks"),
        ({"after": {**CENSUS, "temporary": 1}}, "temporary"),
        ({"database_mb": 500}, "database"),
        ({"wrong": {"HTTP 500: GET /": 1}}, "HTTP 500"),
        ({"bugs": 1}, "bugs"),
    ],
)
def test_what_grew_or_broke_is_a_fault(change: dict[str, Any], word: str) -> None:
    assert [word in fault for fault in faults(msgspec.structs.replace(WELL, **change))] == [True]


def test_the_section_takes_the_place_of_the_one_before() -> None:
    page = with_section("# Soak\n\n## Other\n\nText.\n", MIXED_TITLE, mixed_section(WELL))
    again = with_section(page, MIXED_TITLE, mixed_section(msgspec.structs.replace(WELL, minutes=5)))
    assert again.count(MIXED_TITLE) == 1
    assert "| minutes | 5 |" in again
    assert "## Other\n\nText.\n" in again
