"""Answers that announce a call and make none: which they are, and how the call is asked for."""

import hashlib
from typing import Any

import msgspec
import pytest
from support.engine import MockEngine, answer, call, chunk, text
from support.exchanges import Recorder, run_answers
from support.gateway import running_gateway
from support.messages import create, fold, stream
from support.toy_tool import DICE, Dice, roll

from antiphon.core.exchange.announcements import announces_call
from antiphon.core.exchange.question import ANNOUNCED
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.toolbox.prompt_texts import MAKE_IT_NOW
from antiphon.errors import EngineUnavailable
from bench.models.page import ENDINGS

ANNOUNCING = [
    "I will now run the tests.",
    "I'll check that file first.",
    "Let me look at the file:",
    "The test fails. Let's run it again.",
    "The file is there.\n\n**Next, I'll read `config.toml`.**",
    "Okay, to find the cause, I’m going to search for it.",
    "I've looked at the project; now I will check the routes.",
    "I need to update the version in all files.",
    "Now running the tests...",
    "I'm checking the log.",
    "I'll change it:\n```python\nprint(1)\n```",
    "Ich werde jetzt die Tests ausführen.",
    "Je vais lancer les tests.",
    "Voy a ejecutar las pruebas.",
    "我将运行测试。",
]
NOT_ANNOUNCING = [
    "",
    "I have run the tests.",
    "All tests pass now.",
    "Should I run the tests?",
    "I will now run the tests. They have all passed.",
    "If you want, I'll run the tests.",
    "Let me know if you need more.",
    "I'll be happy to help.",
    "I'll explain how it works.",
    "Once you confirm, I will delete the files.",
    "Please send the file, and I'll review it when you have done so.",
    "You can run the tests with `pytest`.",
    "I will run the tests when you are ready.",
    "I am a code assistant.",
]


@pytest.mark.parametrize("words", ANNOUNCING)
def test_an_announcement_is_recognized(words: str) -> None:
    assert announces_call(words)
    assert announces_call(f"Some words.\n\n{words}\n")
    assert announces_call(f"{'Some words. ' * 10_000}{words}")


@pytest.mark.parametrize("words", NOT_ANNOUNCING)
def test_what_is_no_announcement_is_none(words: str) -> None:
    assert not announces_call(words)
    assert not announces_call(f"I will now look.\n\n{words}") or not words


def test_code_announces_nothing_but_what_is_said_before_it_may() -> None:
    assert not announces_call("```python\nI will run\n```")
    assert not announces_call("Run this:\n```sh\nmake test\n```")
    assert announces_call("I will run this:\n```sh\nmake test\n```")


def test_fewer_than_two_in_a_hundred_real_endings_of_the_half_held_out_are_taken_for_announcements_and_are_none() -> None:
    rows = [msgspec.json.decode(line) for line in ENDINGS.read_bytes().splitlines()]
    held_out = [row for row in rows if int(hashlib.sha256(row["text"].encode()).hexdigest()[:8], 16) % 2]
    others = [row for row in held_out if not row["announces"]]
    assert len(others) > 300
    assert sum(announces_call(row["text"]) for row in others) < 0.02 * len(others)
    announced = [row for row in held_out if row["announces"]]
    assert sum(announces_call(row["text"]) for row in announced) > 0.8 * len(announced)


# ---- the call is asked for -------------------------------------------------------------------------------------------

F: dict[str, Any] = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {}}}
REQUEST = {"tools": [F]}
PROMISE = "I will now run the tests."
CALL = answer(call("run", "{}"), finish="tool_calls")


def promising() -> EngineKnowledge:
    """An engine whose model was seen to announce calls and to make none."""
    knowledge = EngineKnowledge(PLAIN)
    knowledge.learn("m", {"announces_calls": True})
    return knowledge


def ask(*answers: Any, request: dict[str, Any] = REQUEST, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The chat requests, and the response."""
    asked = Recorder()
    given = {"engines": [promising()], "asks_for_announced": True, **options}
    events = run_answers(request, *answers, on_ask=asked, **given)
    response: dict[str, Any] = events[-1]["response"]
    return asked.chats, response


def written(response: dict[str, Any]) -> list[str]:
    """Its texts, and the names of its calls."""
    return [item["content"][0]["text"] if item["type"] == "message" else item.get("name") for item in response["output"]]


def test_the_announcement_stays_and_the_call_follows_it() -> None:
    chats, response = ask(text(PROMISE), CALL)
    assert written(response) == [PROMISE, "run"]
    assert (response["status"], response["antiphon_notices"]) == ("completed", [ANNOUNCED])
    first, second = (chat["messages"] for chat in chats)
    assert second == [*first, {"role": "assistant", "content": PROMISE}, {"role": "user", "content": MAKE_IT_NOW}]
    assert chats[1] == {**chats[0], "messages": second}
    assert response["usage"]["output_tokens"] == 10, "both answers count"


def test_an_answer_in_words_follows_it_too_and_it_is_asked_for_once() -> None:
    chats, response = ask(text(PROMISE), text("Let me check that."))
    assert (len(chats), written(response)) == (2, [PROMISE, "Let me check that."])


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (REQUEST, {"asks_for_announced": False}),
        (REQUEST, {"help": "off"}),
        (REQUEST, {"engines": [EngineKnowledge(PLAIN)]}),
        ({}, {}),
        ({"tools": [F], "tool_choice": "none"}, {}),
        ({"tools": [F], "text": {"format": {"type": "json_object"}}}, {}),
    ],
    ids=["switched off", "without help", "a model that never did it", "without tools", "none may be called", "JSON"],
)
def test_nothing_is_asked_for_otherwise(request_: dict[str, Any], options: dict[str, Any]) -> None:
    said = "{}" if "text" in request_ else PROMISE
    chats, response = ask(text(said), request=request_, **options)
    assert (len(chats), written(response)) == (1, [said])
    assert ANNOUNCED not in response.get("antiphon_notices", ())


@pytest.mark.parametrize(
    "said", [text("All is done."), text(PROMISE, finish="length"), answer(chunk({"content": PROMISE}), call("run", "{}"))]
)
def test_an_answer_that_announces_nothing_is_cut_off_or_has_its_call_is_the_last_one(said: bytes) -> None:
    chats, _ = ask(said)
    assert len(chats) == 1


def test_what_a_model_does_is_learned_and_counts_from_its_next_response_on() -> None:
    knowledge = EngineKnowledge(PLAIN)
    for answers, seen in (([text("Done.")], False), ([text(PROMISE)], True), ([text(PROMISE), CALL], True)):
        chats, _ = ask(*answers, engines=[knowledge])
        assert (len(chats), knowledge.dialect_for("m").announces_calls) == (len(answers), seen)


def test_nothing_is_learned_where_it_is_switched_off() -> None:
    knowledge = EngineKnowledge(PLAIN)
    ask(text(PROMISE), engines=[knowledge], asks_for_announced=False)
    assert not knowledge.dialect_for("m").announces_calls


@pytest.mark.parametrize(
    "failing",
    [EngineUnavailable("away", retry_after=1), b"", b'data: {"error": {"message": "broken"}}\n\n'],
    ids=["it is away", "no answer", "an error"],
)
def test_a_second_answer_that_fails_unseen_leaves_the_first_one(failing: Any) -> None:
    chats, response = ask(text(PROMISE), failing)
    assert (len(chats), written(response), response["status"]) == (2, [PROMISE], "completed")


def test_a_second_answer_that_fails_in_the_middle_is_a_failure() -> None:
    _, response = ask(text(PROMISE), chunk({"content": "The tests"}))
    assert response["status"] == "failed"


def test_a_call_that_the_gateway_runs_is_run_and_the_announcement_is_no_round_of_it() -> None:
    rolled = answer(call("roll", '{"sides": 6}'), finish="tool_calls")
    tools: dict[str, Any] = {"tools": {"dice": Dice()}, "run_tool": roll}
    chats, response = ask(text(PROMISE), rolled, text("Six."), request={"tools": [DICE]}, most_rounds=2, **tools)
    assert [chat["tool_choice"] if "tools" in chat else None for chat in chats] == ["auto", "auto", "auto"]
    assert written(response)[0] == PROMISE
    assert written(response)[-1] == "Six."


# ---- what clients see ------------------------------------------------------------------------------------------------

LOOK = {"name": "run", "description": "Runs.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}


async def test_every_api_shows_the_words_and_then_the_call(engine: MockEngine) -> None:
    async with running_gateway(engine, announced_calls="ask", chat_help=True) as gateway:
        # The first time it is learned.
        engine.will(text(PROMISE))
        await gateway.create(tools=[F])
        engine.will(text(PROMISE), CALL)
        events = await gateway.stream(tools=[F])
        assert written(events[-1]["response"]) == [PROMISE, "run"]
        assert events[-1]["response"]["antiphon_notices"] == [ANNOUNCED]
        engine.will(text(PROMISE), CALL, text(PROMISE), CALL)
        for message in (await create(gateway, tools=[LOOK]), fold(await stream(gateway, tools=[LOOK]))):
            assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
            assert (message["content"][0]["text"], message["stop_reason"]) == (PROMISE, "tool_use")
        chat = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "tools": [FUNCTION]}
        engine.will(text(PROMISE), CALL)
        _, completion = await gateway.post(chat, "/v1/chat/completions")
        (choice,) = completion["choices"]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", PROMISE)
        assert choice["message"]["tool_calls"][0]["function"]["name"] == "run"
        async with gateway.client.get(f"{gateway.url}/metrics") as answered:
            assert 'reason="announced"' in await answered.text()


async def test_two_texts_are_two_paragraphs_of_a_chat_completion(engine: MockEngine) -> None:
    chat = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "tools": [FUNCTION]}
    async with running_gateway(engine, announced_calls="ask", chat_help=True) as gateway:
        engine.will(text(PROMISE), text(PROMISE), text("They pass."), text(PROMISE), text("They pass."))
        await gateway.post(chat, "/v1/chat/completions")
        _, completion = await gateway.post(chat, "/v1/chat/completions")
        assert completion["choices"][0]["message"]["content"] == f"{PROMISE}\n\nThey pass."
        async with gateway.client.post(f"{gateway.url}/v1/chat/completions", json={**chat, "stream": True}) as answered:
            frames = (await answered.read()).split(b"\n\n")
        chunks = [msgspec.json.decode(frame[6:]) for frame in frames if frame.startswith(b"data: {")]
        deltas = [choice["delta"].get("content") or "" for each in chunks for choice in each["choices"]]
        assert "".join(deltas) == f"{PROMISE}\n\nThey pass."


async def test_by_default_nothing_is_asked_for(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        engine.will(text(PROMISE), text(PROMISE))
        for _ in range(2):
            response = await gateway.create(tools=[F])
            assert written(response) == [PROMISE]
        assert len(engine.requests) == 2
