"""The connection to an engine: what is tried again, what is passed on, and how errors of the client library are translated."""

import asyncio
import inspect

import aiohttp
import pytest
from support.engine import CUT, DONE, MockEngine, Refusal, Writer, chunk, text
from support.engine_connections import kept_connections
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_server import CHUNKED, chunked, raw_server, sized

from antiphon.app.options import Intervals
from antiphon.engines.replies import FOREIGN, ours
from antiphon.engines.requests import with_progress
from antiphon.errors import EngineError
from bench.processes import free_port

pytestmark = pytest.mark.usefixtures("both_transports")

SLOW_DOWN = {"error": {"message": "slow down", "type": "rate_limit_error", "code": 429}}


def make(kind: type[Exception]) -> Exception:
    """An instance, whatever its constructor wants."""
    return kind.__new__(kind)


async def test_every_error_of_the_client_library_is_translated() -> None:
    kinds = [
        kind
        for _, kind in inspect.getmembers(aiohttp, inspect.isclass)
        if issubclass(kind, aiohttp.ClientError) and issubclass(kind, Exception)
    ]
    assert len(kinds) > 10
    for kind in [*kinds, OSError, TimeoutError, ConnectionResetError, RuntimeError, ValueError]:
        with pytest.raises(EngineError):
            async with ours("http://x"):
                raise make(kind)
    assert all(issubclass(error, EngineError) for _, error, _ in FOREIGN)


async def test_an_engine_that_is_busy_is_tried_again(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(429, SLOW_DOWN, {"Retry-After": "0"}), Refusal(503, SLOW_DOWN, {"Retry-After": "0"}), text("Hi"))
    assert (await gateway.create())["output_text"] == "Hi"
    assert len(engine.requests) == 3


async def test_a_long_wait_is_passed_on_to_the_client(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(429, SLOW_DOWN, {"Retry-After": "60"}))
    status, body = await gateway.post({"input": "Hi", "stream": True})
    assert status == 429
    assert gateway.headers["Retry-After"] == "60"
    assert body["error"]["code"] == "rate_limit_exceeded"
    assert len(engine.requests) == 1


@pytest.mark.parametrize(("status", "word", "tries"), [(503, "false", 1), (500, "true", 2), (500, None, 1), (400, None, 1)])
async def test_the_engines_retry_header_is_followed(
    gateway: GatewayUnderTest, engine: MockEngine, status: int, word: str | None, tries: int
) -> None:
    headers = {"Retry-After": "0"} | ({"x-should-retry": word} if word else {})
    engine.will(Refusal(status, {"error": {"message": "no"}}, headers), text("Hi"))
    await gateway.post({"input": "Hi"})
    assert len(engine.requests) == tries


# What an engine sends with a 429 → what its client gets as `Retry-After`.
LONG_WAITS: dict[str, tuple[dict[str, str], str | None]] = {
    "a fraction": ({"Retry-After": "6.2"}, "7"),
    "inf": ({"Retry-After": "inf"}, "3600"),
    "huge": ({"Retry-After": "1e99"}, "3600"),
    "milliseconds": ({"retry-after-ms": "61000", "Retry-After": "7"}, "61"),
    "a date": ({"Retry-After": "Sun, 06 Nov 1994 08:50:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"}, "60"),
}


@pytest.mark.parametrize("name", LONG_WAITS)
async def test_a_wait_in_any_form_is_passed_on_in_whole_seconds(
    gateway: GatewayUnderTest, engine: MockEngine, name: str
) -> None:
    headers, expected = LONG_WAITS[name]
    engine.will(Refusal(429, SLOW_DOWN, headers))
    status, body = await gateway.post({"input": "Hi"})
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    assert gateway.headers["Retry-After"] == expected
    assert len(engine.requests) == 1


@pytest.mark.parametrize("wait", ["nan", "-1", "soon", "-inf", ""])
async def test_a_wait_that_is_none_does_not_keep_an_engine_from_being_tried_again(
    gateway: GatewayUnderTest, engine: MockEngine, wait: str
) -> None:
    engine.will(Refusal(429, SLOW_DOWN, {"Retry-After": wait}), text("Hi"))
    assert (await gateway.create())["output_text"] == "Hi"


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (503, {"x-should-retry": "false", "Retry-After": "9"}, {"x-should-retry": "false"}),
        (500, {"x-should-retry": "true", "Retry-After": "9"}, {"x-should-retry": "true", "Retry-After": "9"}),
        (401, {"Retry-After": "9"}, {"x-should-retry": "false"}),
        (400, {"Retry-After": "9"}, {"x-should-retry": "false"}),
    ],
)
async def test_the_client_learns_whether_another_attempt_is_of_use(
    gateway: GatewayUnderTest, engine: MockEngine, status: int, headers: dict[str, str], expected: dict[str, str]
) -> None:
    engine.will(Refusal(status, {"error": {"message": "no"}}, headers))
    await gateway.post({"input": "Hi"})
    assert {name: gateway.headers[name] for name in ("x-should-retry", "Retry-After") if name in gateway.headers} == expected


async def test_a_connection_that_breaks_before_the_first_byte_is_tried_again(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async def cut(write: Writer) -> None:
        await write(CUT)

    engine.will(cut, text("Hi"))
    assert (await gateway.create())["output_text"] == "Hi"


async def test_a_kept_connection_that_the_engine_has_closed_says_nothing_about_the_engine() -> None:
    chats = 0

    async def serve(writer: asyncio.StreamWriter) -> None:
        nonlocal chats
        chats += 1
        if chats == 2:
            writer.close()
        else:
            writer.write(CHUNKED + chunked(text("Hi")))

    async def show_models(writer: asyncio.StreamWriter) -> None:
        writer.write(sized(b'{"object": "list", "data": [{"id": "mock", "owned_by": "mock"}]}'))

    async with (
        raw_server(lambda head: serve if head.startswith(b"POST") else show_models) as server,
        running_gateway(server.url, retries=1, transport="fast") as gateway,
    ):
        (engine,) = gateway.gateway.pool.engines
        lost = 0

        def count() -> None:
            nonlocal lost
            lost += 1

        engine.lost = count  # type: ignore[method-assign]
        for _ in range(2):
            assert (await gateway.create())["output_text"] == "Hi"
        assert (chats, lost) == (3, 0)


async def test_after_the_first_byte_nothing_is_tried_again(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(chunk({"content": "half"}))
    events = await gateway.stream()
    assert events[-1]["type"] == "response.failed"
    assert len(engine.requests) == 1


async def test_an_engine_that_breaks_off_is_not_ready_until_it_answers_again(engine: MockEngine) -> None:
    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await write(CUT)

    engine.will(cut)
    async with running_gateway(engine, intervals=Intervals(engine_retry=600)) as gateway:
        await gateway.stream()
        (known,) = gateway.gateway.pool.engines
        assert not known.ready
        await gateway.create()
        assert known.ready


async def test_an_engine_that_is_given_up_stays_ready(engine: MockEngine) -> None:
    async def stalls(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await asyncio.Event().wait()

    engine.will(stalls)
    async with running_gateway(engine, idle_timeout=0.05, heartbeat=0.05) as gateway:
        assert (await gateway.stream())[-1]["type"] == "response.failed"
        assert gateway.gateway.pool.engines[0].ready


async def test_an_engine_that_is_not_there_is_a_503_with_retry_after() -> None:
    async with running_gateway(f"http://127.0.0.1:{free_port()}", retries=0) as gateway:
        for stream in (True, False):
            status, body = await gateway.post({"input": "Hi", "stream": stream})
            assert status == 503
            assert int(gateway.headers["Retry-After"]) >= 1
            assert body["error"]["code"] == "engine_unavailable"


async def test_an_engine_that_comes_back_is_found_again(engine: MockEngine) -> None:
    async with running_gateway(engine, retries=0) as gateway:
        await gateway.create()
        port = int(engine.url.rpartition(":")[2])
        await engine.stop()
        assert (await gateway.post({"input": "Hi"}))[0] == 503
        await engine.start(port)
        await gateway.create()


async def test_a_stalled_engine_is_given_up(engine: MockEngine) -> None:
    async def stalls(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await asyncio.Event().wait()

    engine.will(stalls, stalls)
    async with running_gateway(engine, idle_timeout=0.05, heartbeat=0.05) as gateway:
        events = await gateway.stream()
        assert events[-1]["response"]["error"]["message"] == "The engine said nothing for too long."
        status, body = await gateway.post({"input": "Hi"})
        assert (status, body["error"]["code"]) == (504, "engine_stalled")
    await engine.cancelled.wait()


async def test_an_engine_that_never_begins_is_given_up(engine: MockEngine) -> None:
    async def silent(write: Writer) -> None:
        await asyncio.Event().wait()

    engine.will(silent, silent)
    async with running_gateway(engine, first_byte_timeout=0.05, heartbeat=0.01) as gateway:
        assert (await gateway.stream())[-1]["type"] == "response.failed"
        assert (await gateway.post({"input": "Hi"}))[0] == 504


async def test_the_connection_is_kept_for_the_next_request(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    kept = []
    for _ in range(3):
        await gateway.stream()
        kept.append(kept_connections(gateway.gateway.pool.engines[0]))
    assert kept == [1, 1, 1]


async def test_a_compressed_answer_is_read(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.compresses = True

    async def slow(write: Writer) -> None:
        for piece in ("one", " two", " three"):
            await write(chunk({"content": piece}))
        await write(chunk(finish="stop") + DONE)

    engine.will(slow)
    assert (await gateway.create())["output_text"] == "one two three"
    assert engine.headers[-1]["Accept-Encoding"] == "identity"


async def test_the_engine_gets_its_own_key_and_not_the_clients(engine: MockEngine) -> None:
    async with running_gateway(engine, upstream_key="engine-key", api_key=("client-key",)) as gateway:
        status, _ = await gateway.post({"input": "Hi"}, headers={"Authorization": "Bearer client-key", "Cookie": "a=client"})
    assert status == 200
    assert engine.headers[-1]["Authorization"] == "Bearer engine-key"
    assert "Cookie" not in engine.headers[-1]


async def test_a_base_url_may_end_in_v1(engine: MockEngine) -> None:
    async with running_gateway(engine.url + "/v1/") as gateway:
        assert (await gateway.create())["output_text"] == "Hello world"


async def test_a_model_whose_template_opens_the_thought_is_learned(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    def thinking() -> bytes:
        pieces = [chunk({"content": piece}) for piece in ("Let me ", "think.", "</think>", "\n\nParis.")]
        return b"".join([*pieces, chunk(finish="stop"), DONE])

    engine.will(thinking(), thinking(), text('{"a": ', "1}"))
    await gateway.stream()
    output = (await gateway.stream())[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert output[0]["content"][0]["text"] == "Let me think."
    assert output[1]["content"][0]["text"] == "Paris."
    constrained = await gateway.stream(text={"format": {"type": "json_object"}})
    assert [item["type"] for item in constrained[-1]["response"]["output"]] == ["message"]


async def test_without_a_stream_an_unopened_thought_is_found_at_once(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    pieces = [chunk({"content": piece}) for piece in ("Let me ", "think.", "</thi", "nk>", "Paris.")]
    engine.will(b"".join([*pieces, chunk(finish="stop"), DONE]))
    response = await gateway.create()
    assert response["output_text"] == "Paris."
    assert response["output"][0]["type"] == "reasoning"


def test_a_client_that_asks_for_reports_of_reading_itself_asks_once() -> None:
    assert with_progress(b'{"a":1}') == b'{"a":1,"return_progress":true}'
    assert with_progress(b'{"return_progress":false}') == b'{"return_progress":false}'
