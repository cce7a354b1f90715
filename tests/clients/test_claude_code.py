"""Claude Code, the coding agent, as `antiphon claude` starts it. It speaks Anthropic Messages, and sends its history whole."""

import asyncio
import base64
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sessions.record import record
from sessions.session import Request
from sessions.session import read as read_session
from support.claude import ALLOWED, Claude, bash, calls, installed, results, tool_names, use, with_usage
from support.client_conversations import THINKS, THOUGHT_SENT_BACK, messages
from support.codex import typed
from support.engine import CUT, Body, MockEngine, Refusal, Writer, call, chunk, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway, started
from support.pdfs import make_pdf
from support.processes import one_runs, running
from support.search_services import SearchServices, searching
from support.template_battery import PIXEL
from support.terminal import ENTER, Terminal

from antiphon.app.parts import Extensions
from antiphon.gateway.runs.observers import Observer
from antiphon.wire.responses import CreateResponse

ROUNDS = 5
SMALL = "Qwen2.5-Coder-1.5B-Instruct"
# Nothing else on this machine has this in its command line. Claude Code itself refuses to sleep for long.
NEVER = f"never-{os.getpid()}.txt"


class Recorder(Observer):
    """What Claude Code has sent."""

    def __init__(self) -> None:
        self.requests: list[CreateResponse] = []

    def request(self, response_id: str, request: CreateResponse) -> None:
        self.requests.append(request)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def gateway(engine: MockEngine, recorder: Recorder) -> AsyncIterator[GatewayUnderTest]:
    extensions = Extensions(checker=CHECKER, observers=[lambda arrival: recorder])
    async with running_gateway(engine, extensions=extensions) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def binary() -> Path:
    return installed()


@pytest.fixture
def claude(binary: Path, gateway: GatewayUnderTest, tmp_path: Path) -> Claude:
    return Claude(binary, gateway.url, tmp_path)


@pytest.fixture
async def outside(claude: Claude) -> AsyncIterator[list[bytes]]:
    """What goes out into the world, through a proxy: its first lines."""
    seen: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        proxies = [name for name in claude.person.environment if name.lower().endswith("_proxy")]
        claude.person.environment |= dict.fromkeys(proxies, url)
        del claude.person.environment["NO_PROXY"]
        yield seen


def retries(events: list[Body]) -> list[int]:
    """The statuses for which it has sent a request again."""
    return [event["error_status"] for event in events if event.get("subtype") == "api_retry"]


# ---- turns -----------------------------------------------------------------------------------------------------------


async def test_it_answers_at_once_and_asks_nobody_but_the_gateway(
    claude: Claude, engine: MockEngine, outside: list[bytes]
) -> None:
    (result,) = [event for event in await claude.run("Say hello") if event["type"] == "result"]
    assert result["result"] == "Hello world"
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (12, 5)
    assert engine.last["max_tokens"] == 8192, "a quarter of the window"
    assert outside == []
    assert len(engine.requests) == 1
    assert engine.last["messages"][-1]["content"].endswith("Say hello")
    assert "iteration of Claude" not in engine.last["messages"][0]["content"], "the model is not told that it is another one"
    assert not list(claude.person.home.glob(".claude*")), "the user's own configuration is not touched"


async def test_a_page_is_fetched_and_nobody_else_is_told(claude: Claude, engine: MockEngine, outside: list[bytes]) -> None:
    fetch = use("WebFetch", id="call_2", url="https://heron.example/", prompt="What is it about?")
    engine.will(calls(use("ToolSearch", query="select:WebFetch")), calls(fetch), text("I could not."))
    assert await claude.says("--allowedTools=WebFetch", "Read that page") == "I could not."
    assert {line.split()[1] for line in outside} == {b"heron.example:443"}


async def test_a_file_is_edited(claude: Claude, engine: MockEngine) -> None:
    file = claude.folder / "greeting.txt"
    file.write_text("Hello world\n")
    edit = use("Edit", id="call_2", file_path=str(file), old_string="world", new_string="Ada")
    engine.will(calls(use("Read", file_path=str(file))), calls(edit), text("It is done."))
    assert await claude.says("Greet Ada") == "It is done."
    assert file.read_text() == "Hello Ada\n"
    shown, edited = results(engine)
    assert "Hello world" in shown
    assert "has been updated" in edited


async def test_over_five_rounds_each_prompt_begins_with_the_one_before(
    claude: Claude, engine: MockEngine, recorder: Recorder
) -> None:
    rounds = [calls(THINKS, bash(f"echo {at} > {at}.txt; cat {at}.txt", id=f"call_{at}")) for at in range(ROUNDS)]
    engine.will(*rounds, text("Five files."))
    assert await claude.says("Write five files") == "Five files."
    assert [(claude.folder / f"{at}.txt").read_text() for at in range(ROUNDS)] == [f"{at}\n" for at in range(ROUNDS)]
    assert results(engine) == [str(at) for at in range(ROUNDS)]
    assert len(engine.requests) == len(recorder.requests) == ROUNDS + 1
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]
    assert b"billing" not in msgspec.json.encode(engine.requests)
    said = [message["content"] for message in engine.last["messages"] if message["role"] == "assistant"]
    assert said == [THOUGHT_SENT_BACK] * ROUNDS, "thoughts come back by their signature"
    keys = {request.prompt_cache_key for request in recorder.requests}
    assert len(keys) == 1
    assert keys != {None}, "the turns of one session are known to be one conversation"


async def test_two_sessions_begin_alike(claude: Claude, engine: MockEngine) -> None:
    await claude.says("Say hello")
    await claude.says("Say goodbye")
    first, second = engine.requests
    assert first["messages"][0] == second["messages"][0]
    assert first["tools"] == second["tools"]


async def test_two_calls_are_made_at_once(claude: Claude, engine: MockEngine) -> None:
    both = bash("echo one | tee 1.txt"), bash("echo two | tee 2.txt", id="call_2", index=1)
    engine.will(calls(*both), text("Both are there."))
    assert await claude.says("Create the files") == "Both are there."
    assert [(claude.folder / name).read_text() for name in ("1.txt", "2.txt")] == ["one\n", "two\n"]
    called, *answers = messages(engine.last)[-3:]
    assert [made["id"] for made in called["tool_calls"]] == ["call_1", "call_2"]
    assert [(each["tool_call_id"], each["content"]) for each in answers] == [("call_1", "one"), ("call_2", "two")]


async def test_a_call_that_is_not_allowed_is_answered_with_the_reason(claude: Claude, engine: MockEngine) -> None:
    engine.will(calls(bash("touch forbidden.txt")), text("I may not."))
    assert await claude.says("--disallowedTools=Bash", "Touch it") == "I may not."
    assert not (claude.folder / "forbidden.txt").exists()
    assert results(engine) != []


async def test_a_sub_agent_works_in_a_conversation_of_its_own(claude: Claude, engine: MockEngine, recorder: Recorder) -> None:
    task = use("Agent", description="Look", prompt="Count the files", subagent_type="general-purpose", run_in_background=False)
    count = bash("ls | wc -l | tee count.txt", id="call_2")
    engine.will(calls(task), calls(count), text("There is one."), text("It found one."))
    assert await claude.says("Have somebody look") == "It found one."
    assert (claude.folder / "count.txt").exists()
    first, agents, working, last = engine.requests
    assert agents["messages"][-1]["content"].endswith("Count the files")
    assert "Have somebody look" not in str(working["messages"])
    assert working["messages"][: len(agents["messages"])] == agents["messages"]
    assert last["messages"][: len(first["messages"])] == first["messages"]
    assert "There is one." in results(engine)[0]
    assert "count.txt" not in str(last["messages"]), "only its report is part of the main conversation"
    session, agent, same_agent, same_session = (request.prompt_cache_key for request in recorder.requests)
    assert session == same_session != agent == same_agent


async def test_a_tool_that_is_searched_is_offered_from_then_on(claude: Claude, engine: MockEngine) -> None:
    engine.will(calls(use("ToolSearch", query="select:WebFetch")), text("Found."))
    assert await claude.says("Find a tool for pages") == "Found."
    before, after = map(tool_names, engine.requests)
    assert after == [*before, "WebFetch"]
    assert not [name for name in after if "Placeholder" in name]
    assert results(engine) == ["WebFetch"]


# ---- the web ---------------------------------------------------------------------------------------------------------


FIND_SEARCH = calls(use("ToolSearch", query="select:WebSearch"))
SEARCH = calls(use("WebSearch", id="call_2", query="capital of Italy"))


async def search(binary: Path, engine: MockEngine, services: SearchServices, folder: Path, *answers: bytes) -> Body:
    """Claude Code asks another time for a search, with no other tool. Returns what it shows of it."""
    engine.will(FIND_SEARCH, SEARCH, *answers, text("It is Rome."))
    async with searching(engine, services) as gateway:
        events = await Claude(binary, gateway.url, folder).run("--allowedTools=WebSearch", "What is the capital of Italy?")
    assert events[-1]["result"] == "It is Rome."
    *_, shown = [event["tool_use_result"] for event in events if "tool_use_result" in event]
    return dict(shown)


async def test_the_web_is_searched(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    searched = calls(call("web_search", '{"query": "capital of Italy"}', id="call_3"))
    async with SearchServices() as services:
        shown = await search(binary, engine, services, tmp_path, searched, text("Rome is the capital [1]."))
    assert [asked["q"] for asked in services.asked] == ["capital of Italy"]
    found, said = shown["results"]
    assert shown["searchCount"] == 1
    assert found["content"] == [
        {"title": "The first page", "url": "https://docs.example.com/a"},
        {"title": "Second & last", "url": "https://example.org/b"},
    ]
    assert said == "Rome is the capital ([docs.example.com](https://docs.example.com/a))."
    _, asks, apart, finds, told = engine.requests
    assert apart["messages"][-1]["content"] == "Perform a web search for the query: capital of Italy"
    assert "Bash" not in tool_names(apart)
    assert "Rome is the capital of Italy." in finds["messages"][-1]["content"], "the engine got what was found"
    assert told["messages"][: len(asks["messages"])] == asks["messages"]
    links = told["messages"][-1]["content"]
    assert "https://example.org/b" in links
    assert said in links


async def test_a_search_that_fails_is_shown_as_an_error(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    searched = calls(call("web_search", '{"query": "capital of Italy"}', id="call_3"))
    async with SearchServices() as services:
        services.formats = set()
        shown = await search(binary, engine, services, tmp_path, searched, text("I could not search."))
    assert shown["results"] == ["Web search error: unavailable", "I could not search."]
    assert "Web search error: unavailable" in results(engine)[-1]


# ---- images, documents, schemas --------------------------------------------------------------------------------------


async def test_an_image_is_seen(claude: Claude, engine: MockEngine) -> None:
    file = claude.folder / "dot.png"
    file.write_bytes(base64.b64decode(PIXEL))
    engine.will(calls(use("Read", file_path=str(file))), text("A dot."))
    assert await claude.says("What is in dot.png?") == "A dot."
    images = [part["image_url"]["url"] for part in engine.last["messages"][-1]["content"] if part["type"] == "image_url"]
    assert images == [f"data:image/png;base64,{PIXEL}"]


async def test_a_pdf_is_read(claude: Claude, engine: MockEngine) -> None:
    file = claude.folder / "letter.pdf"
    file.write_bytes(make_pdf("The heron is late."))
    engine.will(calls(use("Read", file_path=str(file))), text("About a heron."))
    assert await claude.says("What is in letter.pdf?") == "About a heron."
    before, after = engine.requests
    read = after["messages"][len(before["messages"]) :]
    assert "The heron is late." in str(read)
    assert "base64" not in str(read), "the text is all that the engine gets of it"


async def test_an_answer_follows_a_schema(claude: Claude, engine: MockEngine) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    engine.will(calls(use("StructuredOutput", name="Ada")))
    *_, result = await claude.run("--json-schema", json.dumps(schema), "Invent a person")
    assert result["structured_output"] == {"name": "Ada"}
    (offered,) = [tool["function"] for tool in engine.requests[0]["tools"] if tool["function"]["name"] == "StructuredOutput"]
    assert offered["parameters"]["properties"] == {"name": {"type": "string"}}


# ---- sessions --------------------------------------------------------------------------------------------------------


async def test_a_session_is_continued_and_resumed(claude: Claude, engine: MockEngine) -> None:
    engine.will(calls(bash("echo one")), text("Hello, Ada."), text("Ada."), text("Still Ada."))
    *_, result = await claude.run("My name is Ada")
    assert await claude.says("--continue", "What is my name?") == "Ada."
    assert await claude.says("--resume", result["session_id"], "Are you sure?") == "Still Ada."
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    said = [message["content"] for message in engine.last["messages"][-4:]]
    assert said == ["Hello, Ada.", "What is my name?", "Ada.", "Are you sure?"]


async def test_a_conversation_is_compacted_before_a_small_window_is_full(claude: Claude, engine: MockEngine) -> None:
    long = with_usage(calls(bash("echo two", id="call_2")), 21_000)
    engine.will(with_usage(calls(bash("echo one")), 12_000), long, text("<summary>All is well</summary>"), text("Done."))
    assert await claude.says("Work") == "Done."
    *_, work, summary, last = engine.requests
    assert "Do NOT call any tools" in summary["messages"][-1]["content"]
    assert summary["messages"][: len(work["messages"])] == work["messages"], "all of it is in the engine's cache"
    assert "All is well" in str(last["messages"])


async def test_a_conversation_that_the_engine_finds_too_long_is_compacted(claude: Claude, engine: MockEngine) -> None:
    problem = "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens in the messages."
    refused = Refusal(400, {"error": {"message": problem, "type": "BadRequestError", "code": 400}})
    rounds = [calls(bash(f"echo {at}", id=f"call_{at}")) for at in range(2)]
    engine.will(*rounds, refused, text("<summary>All is well</summary>"), text("Done."))
    events = await claude.run("Work")
    assert [event["compact_metadata"]["trigger"] for event in events if event.get("subtype") == "compact_boundary"] == ["auto"]
    assert events[-1]["result"] == "Done."
    assert "All is well" in str(engine.last["messages"])


async def test_the_tokens_of_its_context_are_counted_by_the_engine(binary: Path, tmp_path: Path) -> None:
    def render(chat: Body) -> Body:
        return {"tokens": [0] * 1000 * len(chat.get("messages", []))}

    async with started(MockEngine(owned_by="vllm", paths={"/tokenize": render})) as engine, running_gateway(engine) as gateway:
        shown = await Claude(binary, gateway.url, tmp_path).says("/context")
        assert engine.requests == [], "nothing was generated"
    rows = dict(re.findall(r"^\| ([A-Z][\w ]+?) \| ([\d.]+k?) \|", shown, re.MULTILINE))
    assert rows["Messages"] == "1k"
    assert re.fullmatch(r"[1-9]k", rows["System prompt"]), "each of its sections was counted"
    assert "Autocompact buffer" in rows


async def test_it_sends_what_it_sent_when_a_session_was_recorded(binary: Path, tmp_path: Path) -> None:
    """Otherwise record it anew: `make sessions`."""
    requests = await record(binary, tmp_path)
    assert [outline(request) for request in requests] == [outline(request) for request in read_session()]
    assert str(tmp_path) not in str(requests)


def outline(request: Request) -> list[Any]:
    messages = [(message["role"], block_types(message["content"])) for message in request.body["messages"]]
    tools = [tool["name"] for tool in request.body["tools"]]
    return [request.conversation, request.turn, request.body.keys(), messages, tools]


def block_types(content: Any) -> Any:
    return [block["type"] for block in content] if isinstance(content, list) else "text"


# ---- failures --------------------------------------------------------------------------------------------------------


async def test_a_failure_of_the_engine_is_tried_again(claude: Claude, engine: MockEngine) -> None:
    engine.will(Refusal(500, {"error": {"message": "out of memory"}}), text("Recovered."))
    events = await claude.run("Say hello")
    assert retries(events) == [502]
    assert events[-1]["result"] == "Recovered."


async def test_an_overload_is_a_529_and_is_tried_again(claude: Claude, engine: MockEngine) -> None:
    # The gateway itself has tried for a while.
    engine.will(*[Refusal(503, {"error": {"message": "busy"}})] * 3, text("Recovered."))
    events = await claude.run("Say hello")
    assert set(retries(events)) == {529}
    assert events[-1]["result"] == "Recovered."


async def test_what_the_engine_refuses_is_shown(claude: Claude, engine: MockEngine) -> None:
    engine.otherwise = lambda body: Refusal(400, {"error": {"message": "The model is a teapot."}})
    result = (await claude.run("Say hello"))[-1]
    assert result["is_error"]
    assert "The model is a teapot." in result["result"]


async def test_after_a_broken_stream_an_answer_is_asked_for_whole(
    claude: Claude, engine: MockEngine, recorder: Recorder
) -> None:
    async def breaks(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}))
        await write(CUT)

    engine.will(breaks, text("Whole."))
    assert await claude.says("Say hello") == "Whole."
    assert [bool(request.stream) for request in recorder.requests] == [True, False]
    streamed, whole = engine.requests
    assert (streamed["messages"], streamed["tools"]) == (whole["messages"], whole["tools"])


async def test_an_answer_that_breaks_off_is_continued(claude: Claude, engine: MockEngine) -> None:
    async def breaks(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hello, "}))
        await write(CUT)

    engine.will(breaks, text("Ada."))
    assert (await claude.says("Say hello")).endswith("Ada.")
    said, asked = engine.last["messages"][-2:]
    assert said["content"] == "Hello, "
    assert "cut off" in asked["content"]


# ---- small models, terminals, signals --------------------------------------------------------------------------------


async def test_a_small_model_gets_four_tools_and_a_fifth_of_the_prompt(claude: Claude, engine: MockEngine) -> None:
    engine.lists(SMALL)
    file = claude.folder / "greeting.txt"
    for options in ([], ["--full"]):
        engine.will(calls(use("write_file", path=str(file), content="Hello\n")), text("Written."))
        assert await claude.says("Write a greeting", options=options) == "Written."
        assert file.read_text() == "Hello\n"
        file.unlink()
    lean, _, full, _ = engine.requests
    assert "System tools" in await claude.says("/context"), "its commands are still there"
    assert tool_names(lean) == ["shell", "replace_text", "read_file", "write_file"]
    assert len(msgspec.json.encode(full)) > 5 * len(msgspec.json.encode(lean))
    assert lean["messages"][-1]["content"] == "Write a greeting"


async def test_in_a_terminal_the_first_question_is_whether_the_folder_is_trusted(
    claude: Claude, gateway: GatewayUnderTest
) -> None:
    terminal = Terminal()
    async with typed(claude.person, "--url", gateway.url, terminal=terminal, command="claude"):
        await terminal.shows(b"trust?")
        assert b"theme" not in terminal.shown
    terminal.close()


async def test_in_a_terminal_a_session_gets_a_name_of_the_model_and_a_signal_ends_it(
    claude: Claude, gateway: GatewayUnderTest, engine: MockEngine, outside: list[bytes]
) -> None:
    def reply(body: Body) -> bytes:
        return text('{"name": "greeting-of-the-day"}') if "response_format" in body else text("Greetings")

    engine.otherwise = reply
    claude.trust_folder()
    terminal = Terminal()
    async with typed(claude.person, "--url", gateway.url, "Say hello", terminal=terminal, command="claude") as process:
        await terminal.shows(b"Greetings")
        terminal.type(b"/rename")
        await terminal.shows(b"Rename")
        terminal.type(ENTER)
        await terminal.shows(b"greeting-of-the-day")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 128 + signal.SIGTERM
        assert not running(str(claude.person.home))
    terminal.close()
    (named,) = [request for request in engine.requests if "response_format" in request]
    assert "tools" not in named
    assert outside == []


async def test_a_signal_ends_claude_code_and_its_commands(
    claude: Claude, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.otherwise = lambda body: calls(bash(f"tail -F {NEVER}"))
    given: list[Any] = ["--url", gateway.url, "--", "-p", ALLOWED, "Wait"]
    async with typed(claude.person, *given, command="claude") as process:
        await one_runs(NEVER)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 128 + signal.SIGTERM
        assert not running(NEVER)
        assert not running(str(claude.person.home))
