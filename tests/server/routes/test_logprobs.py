"""Logprobs: asked for as engines understand it, and never missing without a notice."""

from typing import Any

import pytest
from support.engine import DONE, USAGE, MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest

ASKED: dict[str, Any] = {"include": ["message.output_text.logprobs"]}
NONE_CAME = "logprobs were left out: this engine returns none"


def with_logprobs(content: str, *alternatives: str) -> bytes:
    tops = [{"token": token, "logprob": -1.5} for token in alternatives]
    token = {"token": content, "logprob": -0.5, "bytes": None, "top_logprobs": tops}
    choice = {"index": 0, "delta": {"content": content}, "logprobs": {"content": [token]}, "finish_reason": None}
    return b"".join([chunk(choices=[choice]), chunk(finish="stop"), USAGE, DONE])


def notices(response: dict[str, Any]) -> list[str]:
    return list(response.get("antiphon_notices", ()))


@pytest.mark.parametrize("most", [None, 0])
async def test_a_number_of_alternatives_is_sent_only_if_some_are_wanted(
    gateway: GatewayUnderTest, engine: MockEngine, most: int | None
) -> None:
    engine.will(with_logprobs("Hi", "Hi", "Ho"))
    response = await gateway.create(**ASKED, top_logprobs=most)
    assert (engine.last["logprobs"], "top_logprobs" in engine.last) == (True, False)
    (token,) = response["output"][0]["content"][0]["logprobs"]
    assert (token["token"], token["top_logprobs"]) == ("Hi", []), "the engine has chosen a number of its own"


async def test_no_more_alternatives_are_shown_than_were_asked_for(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(with_logprobs("Hi", "Hi", "Ho", "Ha"))
    (event,) = [event for event in await gateway.stream(top_logprobs=2) if event["type"] == "response.output_text.delta"]
    assert [top["token"] for top in event["logprobs"][0]["top_logprobs"]] == ["Hi", "Ho"]


async def test_logprobs_that_the_engine_ignores_are_missed_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create(**ASKED)
    assert notices(response) == [NONE_CAME]
    assert gateway.notice == NONE_CAME
    assert notices(await gateway.create()) == [], "nobody asked for them"


async def test_a_stream_has_the_notice_at_its_end_and_the_next_one_from_its_start(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await gateway.stream(**ASKED)
    assert (notices(first[0]["response"]), notices(first[-1]["response"])) == ([], [NONE_CAME])
    second = await gateway.stream(**ASKED)
    assert notices(second[0]["response"]) == [NONE_CAME]
    assert gateway.notice == NONE_CAME


async def test_an_engine_that_returns_them_after_all_has_no_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.create(**ASKED)
    engine.will(with_logprobs("Hi"), with_logprobs("Ho"))
    assert notices(await gateway.create(**ASKED)) == []
    assert engine.last["logprobs"] is True, "they are asked for all the same"
    assert notices((await gateway.stream(**ASKED))[0]["response"]) == []


async def test_an_answer_without_text_says_nothing_about_logprobs(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("f", "{}"), finish="tool_calls"), text(""))
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    assert notices(await gateway.create(**ASKED, tools=[tool])) == []
    assert notices(await gateway.create(**ASKED)) == []
