"""Large requests are read and converted in a thread: the same answers, and nobody else waits for them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, Refusal, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.items import assistant, user

from antiphon.errors import Cancelled
from antiphon.gateway.limits import owner_limits
from antiphon.gateway.limits import threads as large_requests
from antiphon.gateway.limits.threads import LARGE_BODY, LARGE_HISTORY, THREADS
from antiphon.gateway.runs import gateway as gateway_module
from antiphon.gateway.runs.outbox import NoSink
from antiphon.store.records import Record

LARGE = [*(each for at in range(300) for each in (user(f"m{at} " + "x" * 1400), assistant(f"a{at}"))), user("What now?")]
NO_EFFORT = Refusal(400, {"error": {"message": "reasoning_effort is not supported", "code": 400}})
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
STRICT = {"type": "function", "name": "f", "strict": True, "parameters": SCHEMA}


def large_body(**fields: Any) -> bytes:
    body = msgspec.json.encode({"model": "mock", "input": LARGE, **fields})
    assert len(body) > LARGE_BODY
    return body


async def test_a_large_request_is_sent_as_it_is(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.create(LARGE)
    assert [message["content"] for message in engine.last["messages"]] == [item["content"] for item in LARGE]
    events = await gateway.stream(LARGE)
    assert events[-1]["type"] == "response.completed"


async def test_what_is_wrong_with_a_large_request_is_a_400(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post(large_body(temperature=9))
    assert (status, body["error"]["param"]) == (400, "temperature")
    status, body = await gateway.post(large_body(input=[*LARGE, {"role": "nobody", "content": "x"}]))
    assert (status, body["error"]["param"]) == (400, f"input[{len(LARGE)}].role")


async def test_a_large_request_is_converted_again_after_a_lesson(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(NO_EFFORT, text("Hello"))
    response = await gateway.create(LARGE, reasoning={"effort": "low"})
    assert response["output"][0]["content"][0]["text"] == "Hello"
    first, second = engine.requests
    assert first["reasoning_effort"] != second["reasoning_effort"]
    assert first["messages"] == second["messages"]


async def test_an_answer_to_a_large_request_is_checked_and_asked_for_again(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    wrong, right = (answer(call("f", arguments), finish="tool_calls") for arguments in ('{"b": "x"}', '{"a": 1}'))
    engine.will(wrong, right)
    events = await gateway.stream(LARGE, tools=[STRICT])
    assert events[-1]["response"]["output"][0]["arguments"] == '{"a": 1}'
    assert len(engine.requests) == 2


async def test_a_short_request_with_a_long_history_is_large(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert len(LARGE) >= LARGE_HISTORY
    first = await gateway.create(LARGE)
    await gateway.create("And then?", previous_response_id=first["id"])
    assert len(engine.last["messages"]) == len(LARGE) + 2


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/responses/compact"])
async def test_other_routes_take_large_requests(gateway: GatewayUnderTest, path: str) -> None:
    status, body = await gateway.post(large_body(), path)
    assert status == 200, body


async def test_a_large_response_runs_in_the_background(gateway: GatewayUnderTest) -> None:
    events = await gateway.stream(LARGE, background=True)
    assert events[-1]["type"] == "response.completed"


LONG = "x" * 1500


@pytest.mark.parametrize(
    ("input", "times"),
    [
        pytest.param([user(LONG)] * 200, 0, id="as an agent sends it"),
        pytest.param([user("Hi")] * LARGE_HISTORY, 1, id="many items, which take long to convert"),
        pytest.param([user(LONG)] * (LARGE_BODY // len(LONG)), 2, id="many bytes, which take long to read, too"),
    ],
)
async def test_a_thread_does_only_what_takes_long(
    input: list[dict[str, Any]], times: int, gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    async def noted(work: Callable[[], Any], *, large: bool) -> Any:
        def noting() -> Any:
            threads.append(threading.current_thread())
            return work()

        return await large_requests.run_aside(noting, large=large)

    monkeypatch.setattr(gateway_module, "run_aside", noted)
    await gateway.create(input)
    assert len(threads) == times
    assert threading.main_thread() not in threads


# ---- while it is converted -----------------------------------------------------------------------------------------------


class Pause:
    """Stops the thread that converts a request, where it reports what was learned of the engine."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()

    def __call__(self, event: str, **members: Any) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.reached.set()
        assert self._go.wait(30)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 30)

    def end(self) -> None:
        self._go.set()


@pytest_asyncio.fixture
async def pausing(engine: MockEngine) -> AsyncIterator[tuple[GatewayUnderTest, Pause]]:
    pause = Pause()
    engine.will(NO_EFFORT)
    async with running_gateway(engine, heartbeat=0.05) as gateway:
        gateway.gateway.environment = gateway.gateway.environment.changed(report=pause)
        try:
            yield gateway, pause
        finally:
            pause.end()


async def test_others_are_answered_while_a_large_request_is_converted(pausing: tuple[GatewayUnderTest, Pause]) -> None:
    gateway, pause = pausing
    large = asyncio.create_task(gateway.stream(LARGE, reasoning={"effort": "low"}))
    await pause.wait()
    assert (await gateway.get("/health"))[0] == 200
    assert (await gateway.create("Hi"))["status"] == "completed"
    pause.end()
    assert (await large)[-1]["type"] == "response.completed"


async def test_a_response_that_is_cancelled_while_it_is_converted_ends_when_that_is_done(
    pausing: tuple[GatewayUnderTest, Pause], engine: MockEngine
) -> None:
    gateway, pause = pausing
    run = await gateway.gateway.begin(await gateway.received(large_body(reasoning={"effort": "low"})))
    async with gateway.gateway.running(run):
        connecting = asyncio.create_task(run.connect())
        await pause.wait()
        run.abort(Cancelled())
        assert run.error is None
        pause.end()
        with pytest.raises(Cancelled):
            await connecting
    assert isinstance(run.error, Cancelled)
    assert len(engine.requests) == 1


async def test_a_response_that_is_cancelled_while_its_compaction_is_converted_ends_when_that_is_done(
    pausing: tuple[GatewayUnderTest, Pause], engine: MockEngine
) -> None:
    gateway, pause = pausing
    compacts = [{"type": "compaction", "compact_threshold": 1000}]
    body = large_body(reasoning={"effort": "low"}, context_management=compacts)
    run = await gateway.gateway.begin(await gateway.received(body))
    async with gateway.gateway.running(run):
        await run.connect()
        running = asyncio.create_task(run.run(NoSink()))
        await pause.wait()
        run.abort(Cancelled())
        # The exchange that compacts is in use in the thread.
        assert run.error is None
        pause.end()
        await running
    assert isinstance(run.error, Cancelled)
    assert run.response.status == "cancelled"
    assert len(engine.requests) == 1


# ---- who waits for whom ----------------------------------------------------------------------------------------------


class Threads:
    """All threads for large requests are busy until `free()`."""

    def __init__(self) -> None:
        self._go_on = threading.Event()
        self._begun = [threading.Event() for _ in range(THREADS)]
        self._work = [large_requests._threads.submit(self._keep, begun) for begun in self._begun]

    def _keep(self, begun: threading.Event) -> None:
        begun.set()
        assert self._go_on.wait(20)

    def free(self) -> None:
        self._go_on.set()


class Arrivals:
    """Counts the requests that have come in, and notes whose background responses were stored, in order."""

    def __init__(self, gateway: GatewayUnderTest) -> None:
        self.number = 0
        self.stored: list[str] = []
        self._count = gateway.gateway.admission.owners.count
        self._enqueue = gateway.gateway.store.enqueue
        self._came = asyncio.Event()
        gateway.gateway.admission.owners.count = self._counted  # type: ignore[method-assign]
        gateway.gateway.store.enqueue = self._enqueued  # type: ignore[method-assign]

    def _counted(self, owner: str) -> None:
        self._count(owner)
        self.number += 1
        self._came.set()

    async def _enqueued(self, record: Record, request: bytes) -> None:
        self.stored.append(record.owner)
        await self._enqueue(record, request)

    async def until(self, number: int) -> None:
        async with asyncio.timeout(20):
            while self.number < number:
                self._came.clear()
                await self._came.wait()


async def test_nobody_waits_for_all_large_background_requests_of_another_key(engine: MockEngine) -> None:
    """They need no place among the responses of their key, so only turns keep them from using all threads."""
    async with running_gateway(engine, keys={"ada": ("ada-key",), "bob": ("bob-key",)}, background_workers=0) as gateway:
        arrivals, threads, body = Arrivals(gateway), Threads(), large_body(background=True)

        def send(key: str) -> asyncio.Task[tuple[int, dict[str, Any]]]:
            return asyncio.create_task(gateway.post(body, headers={"Authorization": f"Bearer {key}"}))

        sent = [send("ada-key") for _ in range(10)]
        await arrivals.until(10)
        sent.append(send("bob-key"))
        await arrivals.until(11)
        threads.free()
        assert {status for status, _ in await asyncio.gather(*sent)} == {200}
    assert arrivals.stored.index("bob") <= 3


async def test_more_large_requests_than_may_wait_are_refused(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_limits, "MOST_LARGE", 3)
    async with running_gateway(engine, background_workers=0) as gateway:
        arrivals, threads, body = Arrivals(gateway), Threads(), large_body(background=True)
        sent = [asyncio.create_task(gateway.post(body)) for _ in range(THREADS + 3)]
        await arrivals.until(THREADS + 3)
        status, refused = await gateway.post(body)
        assert (status, refused["error"]["type"]) == (429, "rate_limit_error")
        assert "Too many large requests" in refused["error"]["message"]
        assert int(gateway.headers["Retry-After"]) >= 1
        # Small ones are read at once.
        assert (await gateway.create("Hi"))["status"] == "completed"
        threads.free()
        assert {status for status, _ in await asyncio.gather(*sent)} == {200}
