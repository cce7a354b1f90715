"""What runs and what it costs: a real gateway, an engine that answers in step, and the counters."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from shape import hello, memory
from shape.callgrind import count_run, is_missing, total
from shape.client import CHAT, MESSAGES, PASSED, Client, history
from shape.engine import Engine
from shape.gateway import running_gateway
from shape.instructions import BESIDE, CASES, LONG_STREAM, Costs, rows_of
from shape.profiled import Counter
from shape.tree import read_tree

TREE = read_tree(Path(__file__).parents[2])


async def test_the_requests_that_are_measured_are_answered() -> None:
    async with running_gateway(TREE) as gateway:
        client = await gateway.connect()
        assert b'"output_text":"Hello"' in await client.whole()
        assert b'"output_text":"Hello"' in await client.whole(history(20))
        assert (await client.hello()).count(b"event: response.output_text.delta\n") == 1
        streamed = await client.stream(5)
        assert streamed.count(b"event: response.output_text.delta\n") == 5
        assert b'"Hello word1 word2 word3 word4"' in streamed
        for api, beginning in ((MESSAGES, b'"type":"message"'), (CHAT, b'"object":"chat.completion"')):
            whole = await client.whole(api=api)
            assert beginning in whole
            assert b'"Hello"' in whole
            assert (await client.stream(5, api)).count(api.delta) == 5
        assert (await client.stream(5, PASSED)).count(b'"assistant"') == 5
        assert (await client.passed()).count(b'"object": "chat.completion"') == 1
        await client.open_stream()
        assert memory.private_bytes(gateway.pid) > 1_000_000
        await client.close()


async def test_an_engine_sends_what_one_call_gives_it_in_one_write() -> None:
    engine = Engine()
    async with engine.serving():
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        chat = await engine.chats.get()
        chat.send("a")
        assert b'"content":"a"' in await reader.read(2**16)
        chat.send("b", last=True)
        end = await reader.read(2**16)
        assert b'"content":"b"' in end
        assert end.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        writer.write(b"HEAD /v1/models HTTP/1.1\r\n\r\n")
        assert (await reader.read(2**16)).endswith(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()


def test_a_history_ends_with_a_question() -> None:
    items = history(200)
    assert len(items) == 200
    assert items[-1]["role"] == "user"


async def test_an_answer_that_is_none_is_an_error() -> None:
    async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    engine = Engine()
    async with engine.serving(), await asyncio.start_server(reject, "127.0.0.1", 0) as server:
        client = await Client.connect(engine, server.sockets[0].getsockname()[1], asked_within=0)
        with pytest.raises(ConnectionError, match="503 Busy"):
            await client.whole()
        await client.close()


# ---- the counters ----------------------------------------------------------------------------------------------------


async def test_a_hello_is_counted_in_the_gateway_that_answers_it() -> None:
    counts = await hello.count_calls(TREE)
    modules = hello.modules_always_called(TREE, counts)
    assert 20 < len(modules) < 200
    assert all(sum(count.values()) > len(modules) for count in counts)


def test_a_module_that_only_one_request_has_called_does_not_count() -> None:
    files = {name: str(TREE.source / "antiphon" / name) for name in ("always.py", "timer.py")}
    counts = [{files["always.py"]: 3}, {files["always.py"]: 3, files["timer.py"]: 1}]
    assert hello.modules_always_called(TREE, counts) == ["always.py"]


@pytest.mark.parametrize(
    ("file", "name", "event", "on", "counted"),
    [
        ("/src/ours/a.py", "f", "call", True, {"/src/ours/a.py": 1}),
        ("/src/ours/a.py", "f", "call", False, {}),
        ("/src/ours/a.py", "f", "return", True, {}),
        ("/src/ours/a.py", "<listcomp>", "call", True, {}),
        ("/src/others/a.py", "f", "call", True, {}),
    ],
)
def test_a_call_of_ours_is_counted_while_that_is_asked(
    file: str, name: str, event: str, on: bool, counted: dict[str, int]
) -> None:
    counter = Counter("/src/ours/")
    if on:
        counter.begin()
    namespace: dict[str, object] = {}
    source = "import sys\ndef f(): return sys._getframe()\nframe = f()"
    exec(compile(source, file, "exec"), namespace)
    frame = namespace["frame"]
    code = frame.f_code.replace(co_name=name)  # type: ignore[attr-defined]
    counter.count(type("Frame", (), {"f_code": code})(), event, None)
    assert counter.calls == counted


def test_the_total_of_a_callgrind_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "callgrind.out.1"
    file.write_text("events: Ir\nfn=(1)\n1 20\ntotals: 1234\n")
    assert total(file) == 1234
    file.write_text("events: Ir\n")
    with pytest.raises(ValueError, match="has no total"):
        total(file)


@pytest.mark.skipif(is_missing(), reason="needs valgrind")
def test_instructions_of_a_command_are_counted(tmp_path: Path) -> None:
    few, many = (
        count_run([sys.executable, "-ISc", f"for _ in range({times}): pass"], tmp_path, dict(os.environ))
        for times in (1, 100_000)
    )
    assert many - few > 100_000


def test_a_cost_is_the_least_of_its_blocks_and_a_delta_what_a_longer_stream_has_more() -> None:
    long_streams = [LONG_STREAM, *(cases.long for pair in BESIDE.values() for cases in pair)]
    blocks = {case: [1_500_000.0, 1_400_000.0, 2_000_000.0] for case in CASES}
    blocks |= {case: [41_500_000.0, 41_400_000.0] for case in long_streams}
    found = {row.what: row for row in rows_of(Costs(2_000_000_000, blocks))}
    whole = found["instructions of a whole answer, millions"]
    assert (whole.measured, whole.value) == ("1.4 (to 2)", 1_400_000)
    assert found["instructions of one delta, thousands"].measured == "40 (to 40.1)"
    assert found["instructions from the start to the first answer, millions"].measured == "2,000"
    assert found["instructions of one delta, by messages: beside the Responses API's"].measured == "+0.0%"
    cases, same = BESIDE["messages"]
    blocks |= {cases.whole: [1_540_000.0], same.long: [51_400_000.0]}
    found = {row.what: row for row in rows_of(Costs(2_000_000_000, blocks))}
    assert found["instructions of a whole answer, by messages: beside the Responses API's"].measured == "+10.0%"
    assert found["instructions of one delta, by messages: beside the Responses API's"].measured == "-20.0%"
