"""`antiphon chat`: as a person uses it in a terminal, and as a script does."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest
from support.commands import bare_environment, served, shown_by
from support.engine import OWN_FIELDS, MockEngine, Refusal, Writer, chunk, text
from support.gateway import started
from support.terminal_commands import CTRL_C, CTRL_D, ENTER, Terminal, in_terminal

from antiphon.cli.chat import CLEARED, ReadingView
from antiphon.cli.gateway_client import GatewayClient
from bench.processes import free_port


async def chat(*arguments: str, piped: str | None = None, **environment: str) -> tuple[int, str, str]:
    return await shown_by("chat", *arguments, env=bare_environment(**environment), given=piped or "")


@asynccontextmanager
async def talking(engine: MockEngine, data: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Terminal]]:
    """A conversation in a terminal, with a gateway that is found by itself."""
    environment = {"ANTIPHON_DATA_DIR": str(data)}
    async with (
        served("--port", "0", "--upstream", engine.url, **environment),
        in_terminal("chat", **environment) as (process, terminal),
    ):
        await terminal.shows("> ")
        yield process, terminal


def said(engine: MockEngine) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in engine.last["messages"]]


# ---- in a terminal ---------------------------------------------------------------------------------------------------


async def test_a_conversation_keeps_its_history_and_ends_with_ctrl_d(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(text("Hello", " there"), text("You said hi"))
    async with talking(engine, tmp_path) as (process, terminal):
        assert "mock at http://127.0.0.1:" in terminal.text
        assert "Ctrl-C stops an answer, Ctrl-D ends." in terminal.text
        terminal.type(b"Hi" + ENTER)
        await terminal.shows("Hello there\n> ")
        terminal.type(b"What did I say?" + ENTER)
        await terminal.shows("You said hi\n> ")
        assert said(engine) == [("user", "Hi"), ("assistant", "Hello there"), ("user", "What did I say?")]
        terminal.type(CTRL_D)
        assert await terminal.ends(process) == 0


async def test_reasoning_is_dimmed(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(chunk({"reasoning_content": "Let me see."}) + text("Yes"))
    async with talking(engine, tmp_path) as (_, terminal):
        terminal.type(b"Hi" + ENTER)
        await terminal.shows("Yes")
        assert "\x1b[2mLet me see.\x1b[0m\r\nYes" in terminal.raw


async def test_ctrl_c_ends_the_answer_and_the_engines_work_and_not_the_chat(engine: MockEngine, tmp_path: Path) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"content": "Once upon"}))
        await asyncio.Event().wait()

    engine.will(endless, text("Fine"))
    async with talking(engine, tmp_path) as (process, terminal):
        terminal.type(b"A story" + ENTER)
        await terminal.shows("Once upon")
        terminal.type(CTRL_C)
        await terminal.shows("[stopped: this answer is not part of the conversation]\n> ")
        async with asyncio.timeout(30):
            await engine.cancelled.wait()
        terminal.type(b"And now?" + ENTER)
        await terminal.shows("Fine\n> ")
        assert said(engine) == [("user", "And now?")]
        terminal.type(CTRL_C)
        await terminal.shows("Ctrl-D ends.\n> ")
        assert process.returncode is None


async def test_how_far_a_long_prompt_is_read_is_shown_until_the_answer_begins(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def reading(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": None}, prompt_progress={"total": 4, "processed": 1}))
        await go_on.wait()
        await write(text("Done"))

    mock = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    mock.will(reading)
    async with started(mock), talking(mock, tmp_path) as (_, terminal):
        terminal.type(b"Hi" + ENTER)
        await terminal.shows("[reading the prompt, 25%]")
        go_on.set()
        await terminal.shows("Done\n> ")


async def test_an_answer_that_is_waited_for_is_no_silence(engine: MockEngine, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await go_on.wait()
        await write(text("Done"))

    engine.will(slow)
    async with talking(engine, tmp_path) as (_, terminal):
        terminal.type(b"Hi" + ENTER)
        await terminal.shows("[reading the prompt, ")
        go_on.set()
        await terminal.shows("Done\n> ")


class PersonsScreen(StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.written.set()


def test_a_gateway_that_does_not_report_what_it_does_is_waited_for_as_visibly() -> None:
    screen = PersonsScreen()
    view = ReadingView(GatewayClient(f"http://127.0.0.1:{free_port()}", None), screen)
    view.begin("resp_1")
    assert screen.written.wait(60)
    view.close()
    assert "[waiting for the answer, " in screen.getvalue()
    assert screen.getvalue().endswith(CLEARED)


async def test_an_error_is_shown_in_plain_words_and_the_chat_goes_on(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(Refusal(400, {"error": {"message": "the prompt is too long"}}), text("Better"))
    async with talking(engine, tmp_path) as (_, terminal):
        terminal.type(b"Hi" + ENTER)
        shown = await terminal.shows("too long")
        assert "Traceback" not in shown
        terminal.type(b"Hi" + ENTER)
        await terminal.shows("Better\n> ")


async def test_a_model_cannot_control_the_terminal(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(text("\x1b[2Jgone\x07"))
    async with talking(engine, tmp_path) as (_, terminal):
        terminal.type(b"Hi" + ENTER)
        await terminal.shows("?[2Jgone?\n")


async def test_a_person_is_told_that_the_engine_is_not_ready_and_waits(tmp_path: Path) -> None:
    port, engine_port = free_port(), free_port()
    environment = {"ANTIPHON_DATA_DIR": str(tmp_path), "ANTIPHON_PORT": str(port)}
    async with in_terminal("serve", "--upstream", f"http://127.0.0.1:{engine_port}", **environment) as (_, serving):
        await serving.shows("Waiting for")
        async with in_terminal("chat", **environment) as (_, terminal):
            await terminal.shows("Waiting for the gateway. No engine answers at")
            async with started(MockEngine(), engine_port):
                await terminal.shows("> ")


# ---- in a script -----------------------------------------------------------------------------------------------------


async def test_a_prompt_is_answered_once(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(chunk({"reasoning_content": "Let me see."}) + text("Blue"))
    async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
        assert await chat("Which colour?", ANTIPHON_DATA_DIR=str(tmp_path)) == (0, "Blue\n", "")
        assert said(engine) == [("user", "Which colour?")]


async def test_what_is_piped_in_is_answered_once(engine: MockEngine, tmp_path: Path) -> None:
    async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
        assert await chat(piped="Hi\nthere\n", ANTIPHON_DATA_DIR=str(tmp_path)) == (0, "Hello world\n", "")
        assert said(engine) == [("user", "Hi\nthere\n")]


async def test_a_model_is_named_and_one_that_is_not_known_is_noted(engine: MockEngine, tmp_path: Path) -> None:
    async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
        code, out, err = await chat("Hi", "--model", "other", ANTIPHON_DATA_DIR=str(tmp_path))
    assert (code, out) == (0, "Hello world\n")
    assert err == "[model other is not known here: answered by mock]\n"


async def test_the_gateway_is_named_by_its_address_and_its_key_comes_from_the_environment(engine: MockEngine) -> None:
    port = free_port()
    async with served("--port", str(port), "--upstream", engine.url, "--api-key", "k"):
        for url in (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/v1/"):
            assert (await chat("Hi", "--url", url, ANTIPHON_API_KEY="k"))[:2] == (0, "Hello world\n")
        code, _, err = await chat("Hi", "--url", url)
        assert (code, err.count("\n")) == (2, 1)
        assert f"The gateway at http://127.0.0.1:{port} needs a key. Set ANTIPHON_API_KEY to one" in err


async def test_of_several_gateways_the_one_of_the_settings_or_the_newest_is_used(engine: MockEngine, tmp_path: Path) -> None:
    ports, data = [free_port(), free_port()], {"ANTIPHON_DATA_DIR": str(tmp_path)}
    async with (
        served("--port", str(ports[0]), "--upstream", engine.url, **data),
        served("--port", str(ports[1]), "--upstream", engine.url, **data),
    ):
        said = "2 gateways are running. This is about http://127.0.0.1:{}; --url names another one.\n"
        assert await chat("Hi", **data) == (0, "Hello world\n", said.format(ports[1]))
        assert await chat("Hi", ANTIPHON_PORT=str(ports[0]), **data) == (0, "Hello world\n", said.format(ports[0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no gateway is running. Start one with `antiphon`, and run this again; or name one with --url."),
        (("--url", "http://127.0.0.1:1"), "The gateway at http://127.0.0.1:1 does not answer: connection refused"),
        (("--url", "127.0.0.1:1"), "--url must be http://HOST:PORT or https://HOST, with or without /v1. Did you mean "),
    ],
)
async def test_without_a_gateway_it_says_what_to_do(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, out, err = await chat("Hi", *arguments, ANTIPHON_DATA_DIR=str(tmp_path), ANTIPHON_PORT=str(free_port()))
    assert (code, out) == (2, "")
    assert err.startswith(f"antiphon: {message}")


async def test_an_answer_that_is_cut_off_is_said_to_be() -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        code, _, err = await chat("Hi", "--url", url)
    assert (code, err) == (2, f"antiphon: The gateway at {url} closed the connection in the middle of its answer.\n")


@pytest.mark.parametrize("answer", ["404 Not Found\r\n\r\n<html>", "200 OK\r\n\r\n<html>", "200 OK\r\n\r\n{}"])
async def test_what_is_no_gateway_is_said_to_be_none(answer: str) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {answer}".encode())
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        code, _, err = await chat("Hi", "--url", url)
    assert code == 2
    assert f"antiphon: What answers at {url} is not a gateway" in err


async def test_an_answer_that_fails_or_is_cut_off_has_an_exit_code(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(Refusal(400, {"error": {"message": "no"}}), text("Half", finish="length"))
    async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
        code, out, err = await chat("Hi", ANTIPHON_DATA_DIR=str(tmp_path))
        assert (code, out) == (1, "")
        assert err.startswith("[")
        assert await chat("Hi", ANTIPHON_DATA_DIR=str(tmp_path)) == (1, "Half\n", "[cut off: max_output_tokens]\n")


async def test_nothing_to_ask_is_an_error(engine: MockEngine, tmp_path: Path) -> None:
    async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
        code, _, err = await chat(piped=" \n", ANTIPHON_DATA_DIR=str(tmp_path))
    assert code == 2
    assert "nothing was asked" in err
