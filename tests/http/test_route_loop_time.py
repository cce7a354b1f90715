"""No body blocks the event loop, whichever route it is sent to: the longest callback, in CPU time of the loop's thread.

The routes are those of the table, so a new one is measured as soon as it is there: at first with the shapes that every route
gets, and with bodies of its own once it has a row in `BODIES`.
"""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, text
from support.kernels import ScriptedKernels
from support.loop_probe import MeasuredGateway, measured_gateway

from antiphon.container_settings import ContainerSettings
from antiphon.http.routes import API_ROUTES

Body = dict[str, Any]

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # What aiohttp says of a chat request of more than a megabyte.
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

# In seconds. The aim is 0.05 on an idle machine; one that is busy has slower caches.
BUDGET = 0.15
ATTEMPTS = 3
# Just below the limit of routes for which only small bodies make sense.
MEGABYTE = 1_000_000

PATHS = sorted(route.path for route in API_ROUTES if route.method == "POST")
VARIABLE = re.compile(r"\{(\w+)\}")


def repeated(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def listed(unit: bytes, size: int) -> bytes:
    """As JSON: as many of the unit as fit."""
    return b"[" + b",".join([unit] * (size // (len(unit) + 1))) + b"]"


def members(value: bytes, size: int) -> bytes:
    """As JSON: an object with many members."""
    count = size // (len(value) + 13)
    return b"{" + b",".join(b'"k%08d":%b' % (at, value) for at in range(count)) + b"}"


def generic(size: int) -> Iterator[tuple[str, bytes]]:
    """Shapes that any route may be sent."""
    yield "one long string", b'{"model":"mock","name":"%b"}' % repeated(b"x", size)
    yield "one long string of escapes", b'{"model":"mock","name":"%b"}' % repeated(b"\\u00e9", size)
    yield "many members", members(b"0", size)
    yield "many metadata members", b'{"model":"mock","metadata":%b}' % members(b'"v"', size)
    yield "many small items", b'{"model":"mock","items":%b}' % listed(b'{"a":1}', size)
    yield "arrays", b'{"model":"mock","a":%b}' % listed(b"[]", size)
    yield "numbers", b'{"model":"mock","a":%b}' % listed(b"1.5", size)
    yield "deep", b'{"model":"mock","a":%b%b}' % (repeated(b"[", size // 2), repeated(b"]", size // 2))
    yield "deep again and again", b'{"model":"mock","a":%b}' % listed(b"[" * 100 + b"]" * 100, size)
    yield "no JSON at its end", b'{"model":"mock","a":%b]' % listed(b"{}", size)
    yield "an array", listed(b"{}", size)


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
    allowed = {"type": "in", "key": "a", "value": ["x" * 3 + str(at) for at in range(1_000)]}
    yield "as many filters as there may be", encoded(query="a", filters={"type": "or", "filters": [allowed] * 255})


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

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self.client.post(self.gateway.url + path, data=data) as answer:
            return answer.status, await answer.read()

    async def longest(self, path: str, body: bytes) -> tuple[float, int]:
        """The longest callback, and the status of the answer."""
        self.gateway.loop.longest = 0.0
        status, _ = await self.post(path, body)
        async with self.client.get(f"{self.gateway.url}/health") as healthy:
            assert healthy.status == 200
        return self.gateway.loop.longest, status


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
    path, slow = served.path(route), {}
    for name, body in bodies(route, MEGABYTE - 200):
        taken: list[float] = []
        while len(taken) < ATTEMPTS and (not taken or min(taken) > BUDGET):
            seconds, status = await served.longest(path, body)
            assert 200 <= status < 500, (name, status)
            taken.append(seconds)
        slow[name] = f"{min(taken) * 1000:.0f} ms"
        print(route, name, slow[name], status, len(body))


@pytest.mark.parametrize("size", [4, 16])
@pytest.mark.parametrize("route", PATHS)
async def test_big(route: str, size: int, served: Served) -> None:
    path = served.path(route)
    for name, body in bodies(route, size * MEGABYTE):
        seconds, status = await served.longest(path, body)
        print("BIG", size, route, name, f"{seconds * 1000:.0f} ms", status, len(body))
