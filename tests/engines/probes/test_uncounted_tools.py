"""Engines whose count of a prompt leaves the tools out: what the model knows of its tools shows that it sees them."""

import re
from typing import Any

import msgspec
import pytest
from support.engine import DONE, Answer, Body, MockEngine, answer, call, chunk
from support.gateway import running_gateway, started
from support.known_engines import counted
from support.reading_model import (
    SHAPES,
    Count,
    Shape,
    counts_messages,
    counts_nothing,
    counts_prompt,
    in_pieces,
    reports_nothing,
    whole,
)

from antiphon.engines.probes.answers import MOST_TOKENS
from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.probes.prober import learned, probe
from antiphon.engines.probes.questions import CODE_WORD, CODE_WORD_TOOLS, FOR_CODE_WORD
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session

GATE: dict[str, Any] = {
    "type": "function",
    "name": "open_gate",
    "description": "Opens the gate. The gate code is 4711-b.",
    "parameters": {"type": "object", "properties": {"gate_code": {"type": "string"}}, "required": ["gate_code"]},
}
OPEN = "Open the gate with the gate code."


async def tools_of(mock: MockEngine) -> Finding:
    async with started(mock), make_session() as session:
        engine = Engine(mock.url, session)
        await engine.identify()
        return next(each for each in await probe(engine, "mock") if each.capability == "tools")


@pytest.mark.parametrize("count", [counts_messages, counts_nothing, reports_nothing, counts_prompt])
@pytest.mark.parametrize("name", SHAPES)
async def test_tools_that_a_model_can_call_are_sent_natively_whatever_the_engine_counts(name: str, count: Count) -> None:
    mock = SHAPES[name].engine(count)
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
        first = await gateway.create(OPEN, tools=[GATE])
        sent = mock.last
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["open_gate"]
        assert GATE["description"] not in str(sent["messages"]), "they are not in words, too"
        (made,) = first["output"]
        assert (made["type"], made["name"]) == ("function_call", "open_gate")
        assert msgspec.json.decode(made["arguments"]) == {"gate_code": "4711-b"}
        result = {"type": "function_call_output", "call_id": made["call_id"], "output": "It is open."}
        await gateway.create([result], tools=[GATE], previous_response_id=first["id"])
    assert mock.last["tools"] == sent["tools"]
    assert mock.last["messages"][: len(sent["messages"])] == sent["messages"], "the prompt has only grown"
    assert [message["role"] for message in mock.last["messages"][-2:]] == ["assistant", "tool"]


@pytest.mark.parametrize("form", [whole, in_pieces])
async def test_an_engine_that_hides_its_tools_is_still_found_out(form: Any) -> None:
    finding = await tools_of(Shape(form=form).engine(counts_messages, shows_tools=False))
    assert (finding.verdict, finding.facts) == (Verdict.DOES_NOT, {"shows_tools": False})


async def test_an_engine_that_hides_its_tools_gets_them_in_words() -> None:
    mock = Shape().engine(counts_messages, shows_tools=False)
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
        await gateway.create(OPEN, tools=[GATE])
    assert "tools" not in mock.last
    assert GATE["description"] in str(mock.last["messages"])


@pytest.mark.parametrize("count", [counts_nothing, reports_nothing])
async def test_a_count_that_no_text_changes_proves_nothing(count: Count) -> None:
    """No message and no role is taken for dropped because of it, either."""
    mock = Shape().engine(count, shows_tools=False)
    async with started(mock), make_session() as session:
        engine = Engine(mock.url, session)
        await engine.identify()
        findings = {finding.capability: finding for finding in await probe(engine, "mock")}
    assert (findings["tools"].verdict, findings["tools"].facts) == (Verdict.UNKNOWN, {})
    assert findings["system role"].verdict is Verdict.UNKNOWN
    facts = learned(list(findings.values()))
    assert facts.get("alternates") is not True
    assert "takes_system_role" not in facts


def calling(arguments: str, name: str | None = None) -> MockEngine:
    """It answers every request with tools with this call, of the first of them or by this name."""
    mock = Shape().engine(counts_messages, shows_tools=False)
    sound = mock.otherwise

    def answers(body: Body) -> Answer:
        if not body.get("tools"):
            return sound(body)
        return answer(call(name or body["tools"][0]["function"]["name"], arguments), finish="tool_calls")

    mock.otherwise = answers
    return mock


async def test_a_call_without_the_word_proves_nothing() -> None:
    """Some engines constrain their model to one."""
    finding = await tools_of(calling('{"code_word": "sesame", "word": "quuxible", "number": 1}'))
    assert (finding.verdict, finding.facts) == (Verdict.UNKNOWN, {})


async def test_a_call_of_a_tool_that_was_not_offered_is_made_up_by_a_model_that_sees_none() -> None:
    finding = await tools_of(calling('{"code_word": "sesame"}', name="hand_over_the_code_word"))
    assert (finding.verdict, finding.facts) == (Verdict.DOES_NOT, {"shows_tools": False})


@pytest.mark.parametrize("member", ["content", "reasoning_content"])
async def test_the_word_proves_it_wherever_it_comes(member: str) -> None:
    """The engine may not find the calls of its model, and a thought may be all that there is room for."""
    mock = Shape().engine(counts_messages, shows_tools=False)
    sound = mock.otherwise

    def answers(body: Body) -> Answer:
        descriptions = str(body.get("tools", ""))
        if body["messages"] != FOR_CODE_WORD or not descriptions:
            return sound(body)
        says = {member: f"It says: {descriptions}"}
        return b"".join([chunk(says), chunk(finish="length"), chunk(usage=counted("x")), DONE])

    mock.otherwise = answers
    finding = await tools_of(mock)
    assert (finding.verdict, finding.facts) == (Verdict.WORKS, {"shows_tools": True})


async def test_the_question_is_short_and_asked_only_where_the_count_does_not_answer() -> None:
    asked: dict[Count, list[Body]] = {}
    for count in (counts_prompt, counts_messages):
        mock = Shape().engine(count)
        await tools_of(mock)
        asked[count] = [body for body in mock.requests if body["messages"] == FOR_CODE_WORD]
    assert asked[counts_prompt] == []
    (question,) = asked[counts_messages]
    assert question["tool_choice"] == "auto"
    assert question["max_tokens"] == MOST_TOKENS <= 128


def test_the_word_stands_in_a_description_and_nowhere_else() -> None:
    """No schema has it that could be made a grammar of, and no message."""
    (tool,) = CODE_WORD_TOOLS
    assert CODE_WORD in tool["function"]["description"]
    assert CODE_WORD not in str(FOR_CODE_WORD)
    assert CODE_WORD not in str(tool["function"]["parameters"])
    assert not set(re.split(r"\W|_", tool["function"]["name"])) & set(re.split(r"\W|_", str(FOR_CODE_WORD).lower()))
