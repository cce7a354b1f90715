"""No body blocks the event loop, whichever route it is sent to: the longest callback, in CPU time of the loop's thread.

The routes are those of the table, so a new one is measured as soon as it is there: at first with the shapes that every route
gets, and with bodies of its own once it has a row in `BODIES`.
"""

import gzip
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, text
from support.kernels import ScriptedKernels
from support.loop_probe import ATTEMPTS, BUDGET, MeasuredGateway, measured_gateway

from antiphon.core.protocols.chat import read as chat_read
from antiphon.core.protocols.responses import read
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.passed_through import requests as passed_requests
from antiphon.server.bodies import LARGE, SMALL, SMALL_BODY, Bodies
from antiphon.server.routes.table import API_ROUTES
from antiphon.settings.tables import ContainerSettings

Body = dict[str, Any]

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # What aiohttp says of a chat request of more than a megabyte.
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

# Just below the limit of routes for which only small bodies make sense.
MEGABYTE = 1_000_000
NO_HEADERS: Mapping[str, str] = {}

HANDLERS: dict[str, Any] = {route.path: route.handler for route in API_ROUTES if route.method == "POST"}
PATHS = sorted(HANDLERS)
VARIABLE = re.compile(r"\{(\w+)\}")


def taken_by(path: str) -> Bodies | None:
    """What the table says about the bodies of a route. None: it reads none, or a form."""
    handler = HANDLERS[path]
    return handler.keywords["bodies"] if isinstance(handler, partial) else None


def repeated(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def listed(unit: bytes, size: int) -> bytes:
    """As JSON: as many of the unit as fit."""
    return b"[" + b",".join([unit] * (size // (len(unit) + 1))) + b"]"


def members(value: bytes, size: int) -> bytes:
    """As JSON: an object with many members."""
    count = size // (len(value) + 13)
    return b"{" + b",".join(b'"k%08d":%b' % (at, value) for at in range(count)) + b"}"


@lru_cache(maxsize=1)
def generic(size: int) -> list[tuple[str, bytes]]:
    """Shapes that any route may be sent. To make them takes as long as to send them."""
    return [
        ("one long string", b'{"model":"mock","name":"%b"}' % repeated(b"x", size)),
        ("one long string of escapes", b'{"model":"mock","name":"%b"}' % repeated(b"\\u00e9", size)),
        ("many members", members(b"0", size)),
        ("many metadata members", b'{"model":"mock","metadata":%b}' % members(b'"v"', size)),
        ("many small items", b'{"model":"mock","items":%b}' % listed(b'{"a":1}', size)),
        ("arrays", b'{"model":"mock","a":%b}' % listed(b"[]", size)),
        ("numbers", b'{"model":"mock","a":%b}' % listed(b"1.5", size)),
        ("deep", b'{"model":"mock","a":%b%b}' % (repeated(b"[", size // 2), repeated(b"]", size // 2))),
        ("deep again and again", b'{"model":"mock","a":%b}' % listed(b"[" * 100 + b"]" * 100, size)),
        ("no JSON at its end", b'{"model":"mock","a":%b]' % listed(b"{}", size)),
        ("an array", listed(b"{}", size)),
    ]


def with_list(member: str, unit: Any, size: int, **others: Any) -> bytes:
    """A body whose `member` has many of the unit."""
    start = msgspec.json.encode(others)[:-1]
    return b'%b%b"%b":%b}' % (start, b"," if others else b"", member.encode(), listed(msgspec.json.encode(unit), size))


def encoded(**members: Any) -> bytes:
    return msgspec.json.encode(members)


def items(size: int) -> Iterator[tuple[str, bytes]]:
    """Of a conversation: many, and few that are large."""
    part, message = {"type": "input_text", "text": "a"}, {"type": "message", "role": "user"}
    yield "many items", with_list("items", {**message, "content": "Hi"}, size)
    parts = msgspec.Raw(listed(msgspec.json.encode(part), size))
    yield "an item with many parts", encoded(items=[{**message, "content": parts}])
    empty = msgspec.Raw(listed(b"[]", size))
    yield "an item with many arrays", encoded(items=[{**message, "content": "Hi", "a": empty}])
    yield "a long text", encoded(items=[{**message, "content": "x" * size}])
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": parts}
    yield "a call with many outputs", encoded(items=[call, output])
    tool = b'{"type":"function","name":"f"}'
    yield "an item with many tools", encoded(items=[{"type": "additional_tools", "tools": msgspec.Raw(listed(tool, size))}])


def responses(size: int) -> Iterator[tuple[str, bytes]]:
    message = {"role": "user", "content": "Hi"}
    yield "many messages", with_list("input", message, size, model="mock")
    yield "a long text", encoded(model="mock", input="x" * size)
    parts = msgspec.Raw(listed(b'{"type":"input_text","text":"a"}', size))
    yield "many parts", encoded(model="mock", input=[{"role": "user", "content": parts}])


def chats(size: int) -> Iterator[tuple[str, bytes]]:
    yield "many messages", with_list("messages", {"role": "user", "content": "Hi"}, size, model="mock")
    yield "many messages for another model", with_list("messages", {"role": "user", "content": "Hi"}, size, model="other")


def files(size: int) -> Iterator[tuple[str, bytes]]:
    """Of containers and vector stores."""
    yield "many ids of one file", with_list("file_ids", "file-1", size, name="a")
    count = size // 16
    yield "many ids", encoded(name="a", file_ids=[f"file-{at:08}" for at in range(count)])
    yield "a long id", encoded(name="a", file_id="x" * size, file_ids=["x" * size])


def batches(size: int) -> Iterator[tuple[str, bytes]]:
    yield from files(size)
    yield "files", encoded(files=[{"file_id": f"file-{at}", "attributes": {"a": "x" * 400}} for at in range(size // 450)])
    attributes = {f"k{at}": "x" * 400 for at in range(16)}
    few = min(2_000, size // 7_000)
    yield "files with attributes", encoded(files=[{"file_id": f"file-{at}", "attributes": attributes} for at in range(few)])


def searches(size: int) -> Iterator[tuple[str, bytes]]:
    yield "many queries", with_list("query", "a", size)
    yield "a long query", encoded(query="x" * size)
    yield "queries that are as long as they may be", encoded(query=["a b " * 1_000] * 32)
    same = b'{"type":"eq","key":"a","value":1}'
    yield "many filters", encoded(query="a", filters={"type": "and", "filters": msgspec.Raw(listed(same, size))})
    values = msgspec.Raw(listed(b"1", size))
    yield "many values", encoded(query="a", filters={"type": "in", "key": "a", "value": values})
    allowed = {"type": "in", "key": "a", "value": list(range(1_000))}
    yield "as many filters as there may be", encoded(query="a", filters={"type": "or", "filters": [allowed] * 250})


# What a route's own members may have, by its path.
BODIES = {
    "/v1/responses": responses,
    "/v1/responses/compact": responses,
    "/v1/responses/input_tokens": responses,
    "/v1/conversations": items,
    "/v1/conversations/{id}/items": items,
    "/v1/containers": files,
    "/v1/containers/{id}/files": files,
    "/v1/vector_stores": files,
    "/v1/vector_stores/{id}/files": files,
    "/v1/vector_stores/{id}/file_batches": batches,
    "/v1/vector_stores/{id}/search": searches,
    "/v1/chat/completions": chats,
}


def bodies(path: str, size: int) -> Iterator[tuple[str, bytes]]:
    yield from generic(size)
    if (own := BODIES.get(path)) is not None:
        yield from own(size)


# ---- the gateway -----------------------------------------------------------------------------------------------------


class Served(NamedTuple):
    gateway: MeasuredGateway
    client: aiohttp.ClientSession
    # The beginning of a path → the id of something that is there.
    ids: dict[str, str]

    def path(self, route: str) -> str:
        id = next((id for start, id in self.ids.items() if route.startswith(start)), "x")
        return VARIABLE.sub(lambda name: id if name[1] == "id" else "x", route)

    async def post(self, path: str, body: Any, headers: Mapping[str, str] = NO_HEADERS) -> tuple[int, bytes]:
        data = msgspec.json.encode(body) if isinstance(body, dict) else body
        async with self.client.post(self.gateway.url + path, data=data, headers=headers) as answer:
            return answer.status, await answer.read()

    async def get(self, path: str) -> bytes:
        async with self.client.get(self.gateway.url + path) as answer:
            assert answer.status == 200
            return await answer.read()

    async def longest(self, path: str, body: bytes) -> tuple[float, int]:
        """The longest callback, and the status of the answer."""
        self.gateway.loop.longest = 0.0
        status, _ = await self.post(path, body)
        async with self.client.get(f"{self.gateway.url}/health") as healthy:
            assert healthy.status == 200
        return self.gateway.loop.longest, status

    async def within_budget(self, *uses: Callable[[], Awaitable[Any]]) -> None:
        for at, use in enumerate(uses):
            taken: list[float] = []
            while len(taken) < ATTEMPTS and (not taken or min(taken) > BUDGET):
                self.gateway.loop.longest = 0.0
                await use()
                taken.append(self.gateway.loop.longest)
            assert min(taken) <= BUDGET, f"{at}: {min(taken) * 1000:.0f} ms"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    engine = MockEngine(paths={"/v1/completions": {"choices": []}, "/v1/embeddings": {"data": []}})
    engine.objects_to, engine.otherwise = lambda body: None, lambda body: text("Hello")
    await engine.start()
    containers = ContainerSettings(folder=str(tmp_path_factory.mktemp("containers")), most=1_000, most_per_key=1_000)
    with measured_gateway(engine.url, kernels=ScriptedKernels(), containers=containers) as gateway:
        async with aiohttp.ClientSession() as client:
            made = Served(gateway, client, {})
            for path in ("/v1/conversations", "/v1/vector_stores", "/v1/containers"):
                status, answer = await made.post(path, {"name": "a"} if "conv" not in path else {})
                assert status == 200, answer
                made.ids[path] = msgspec.json.decode(answer)["id"]
            yield made
    await engine.stop()


@pytest.mark.parametrize("route", PATHS)
async def test_no_body_of_a_megabyte_blocks_the_event_loop(route: str, served: Served) -> None:
    path, taken = served.path(route), dict[str, float]()
    for name, body in bodies(route, MEGABYTE):
        for _ in range(ATTEMPTS):
            seconds, status = await served.longest(path, body)
            assert 200 <= status < 500, (name, status)
            taken[name] = min(seconds, taken.get(name, seconds))
            if seconds <= BUDGET:
                break
    assert {name: seconds for name, seconds in taken.items() if seconds > BUDGET} == {}


# ---- larger ones -----------------------------------------------------------------------------------------------------

# The shapes of which a route that reads them on the event loop cannot make little.
# So many bytes that whatever reads them on the event loop takes longer than the budget.
LARGER = 6 * MEGABYTE
HOSTILE = ("arrays", "an item with many arrays", "a call with many outputs", "many parts", "many messages", "files")


@pytest.mark.parametrize("route", [path for path in PATHS if taken_by(path) == LARGE])
async def test_a_larger_body_takes_the_event_loop_little_longer(route: str, served: Served) -> None:
    """To copy what came takes a millisecond a megabyte; to read and free what is in it would take a hundred."""
    path, larger = served.path(route), dict(bodies(route, LARGER))
    for name in [name for name in HOSTILE if name in larger]:
        for attempt in range(ATTEMPTS):
            seconds, status = await served.longest(path, larger[name])
            assert 200 <= status < 500, (name, status)
            if seconds <= BUDGET:
                break
            assert attempt < ATTEMPTS - 1, f"{name}: {seconds * 1000:.0f} ms"


@pytest.mark.parametrize("route", [path for path in PATHS if taken_by(path) == SMALL])
async def test_a_body_that_makes_no_sense_is_a_413_that_says_how_large_it_may_be(route: str, served: Served) -> None:
    message = "The body is larger than 1048576 bytes, which is the most that this path takes."
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "request_too_large"}
    too_large = b" " * (SMALL_BODY + 1)
    sent = [
        await served.post(served.path(route), too_large),
        await served.post(served.path(route), in_chunks(too_large)),
        await served.post(served.path(route), gzip.compress(too_large), {"Content-Encoding": "gzip"}),
    ]
    assert [(status, msgspec.json.decode(answer)["error"]) for status, answer in sent] == [(413, error)] * 3


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 65_536):
        yield body[at : at + 65_536]


@pytest.mark.parametrize("route", PATHS)
async def test_a_body_below_the_limit_is_read(route: str, served: Served) -> None:
    status, _ = await served.post(served.path(route), b"{}".ljust(SMALL_BODY))
    assert status != 413


# ---- forms -----------------------------------------------------------------------------------------------------------

BOUNDARY = b"0123456789abcdef"
NEARLY = b"\r\n--" + BOUNDARY[:-1]


def form(name: bytes, contents: bytes) -> bytes:
    head = b'--%b\r\nContent-Disposition: form-data; name="%b"; filename="a"\r\n\r\n' % (BOUNDARY, name)
    return head + contents + b"\r\n--%b--\r\n" % BOUNDARY


# Made by the test that wants one.
FORMS: dict[str, Callable[[], bytes]] = {
    "a long file": lambda: form(b"file", b"x" * LARGER),
    "what is nearly a boundary": lambda: form(b"file", repeated(NEARLY, LARGER)),
    "many lines": lambda: form(b"file", repeated(b"\r\n", LARGER)),
    "many parts": lambda: repeated(form(b"file", b"")[:-4], MEGABYTE),
    "long names": lambda: form(repeated(b'\\"; a=', 16_000), b""),
    "no boundary": lambda: repeated(b"x\r\n", LARGER),
    "a long field": lambda: form(b"purpose", b"x" * LARGER),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("route", ["/v1/files", "/v1/containers/{id}/files"])
async def test_no_form_blocks_the_event_loop(route: str, name: str, served: Served) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}
    made = FORMS[name]()

    async def upload() -> None:
        status, answer = await served.post(served.path(route), in_chunks(made), headers)
        assert status in (200, 400), answer

    await served.within_budget(upload)


# ---- what is stored --------------------------------------------------------------------------------------------------

PART = {"type": "input_text", "text": "a"}
MANY = [{"type": "message", "role": "user", "content": [PART] * 150_000}]


async def test_no_stored_items_block_the_event_loop(served: Served) -> None:
    """Four megabytes, many times: as they are added, listed, shown one by one, and used by the output of a call."""
    _, answer = await served.post("/v1/conversations", {"items": MANY})
    path = f"/v1/conversations/{msgspec.json.decode(answer)['id']}/items"
    called = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    first = msgspec.json.decode(await served.get(path))["data"][0]
    assert len(first["content"]) == len(MANY[0]["content"])
    await served.within_budget(
        lambda: served.post(path, {"items": MANY}),
        lambda: served.get(path),
        lambda: served.get(f"{path}/{first['id']}"),
        lambda: served.post(path, {"items": [called, output]}),
    )


async def test_no_stored_response_blocks_the_event_loop(served: Served) -> None:
    created = {"model": "mock", "input": MANY, "instructions": "x" * MEGABYTE}
    _, answer = await served.post("/v1/responses", created)
    id = msgspec.json.decode(answer)["id"]
    await served.within_budget(
        lambda: served.post("/v1/responses", created),
        lambda: served.get(f"/v1/responses/{id}"),
        lambda: served.get(f"/v1/responses/{id}/input_items"),
        lambda: served.post("/v1/responses", {"model": "mock", "input": "Go on", "previous_response_id": id}),
    )


async def test_no_message_of_a_websocket_blocks_the_event_loop(served: Served) -> None:
    message = msgspec.json.encode({"type": "response.create", "model": "mock", "input": MANY, "store": False}).decode()
    for deployment in ("", "/openai/deployments/mock"):
        async with served.client.ws_connect(f"{served.gateway.url}{deployment or '/v1'}/responses") as socket:

            async def respond() -> None:
                await socket.send_str(message)
                while (received := await socket.receive_json())["type"] != "response.completed":
                    assert received["type"] not in ("error", "response.failed"), received

            await served.within_budget(respond)


# ---- where they are read ---------------------------------------------------------------------------------------------


class Watched:
    """A function, and the kinds of threads that have called it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.threads: set[str] = set()

    def __call__(self, *given: Any) -> Any:
        self.threads.add(threading.current_thread().name.partition("_")[0])
        return self._function(*given)


@pytest.mark.parametrize("route", [path for path in PATHS if taken_by(path) is not None])
async def test_large_bodies_are_read_in_a_thread_and_small_ones_are_not(
    route: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = served.gateway.thread.name.partition("_")[0]
    for size, thread in ((1_000, loop), (LARGE_BODY, "large-request")):
        reading = Watched(read.decode_json)
        for module in (read, chat_read, passed_requests):
            monkeypatch.setattr(module, "decode_json", reading)
        await served.post(served.path(route), b'{"model": "mock"}'.ljust(size))
        assert reading.threads == {thread}
        monkeypatch.undo()
