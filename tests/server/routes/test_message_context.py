"""Long conversations in Anthropic Messages: what is cleared of them, and how they are compacted."""

from typing import Any

import pytest
from support.engine import MockEngine, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, started
from support.messages import HI, Body, create, fold, refused, stream

CLEARED = "[This result was cleared to save room. Call the tool again if you need it.]"
LONG = "tea " * 1000
SUMMARY = text("They talked about tea.")
TALK: list[Body] = [
    {"role": "user", "content": "Tell me about tea"},
    {"role": "assistant", "content": LONG},
    {"role": "user", "content": "And coffee?"},
]


def edited(**edit: Any) -> Body:
    return {"context_management": {"edits": [edit]}}


# ---- results of tools --------------------------------------------------------------------------------------------------


def turns(count: int, name: str = "look") -> list[Body]:
    """So many calls, each with its result."""
    messages: list[Body] = [*HI]
    for number in range(count):
        used = {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {"at": "x" * 400}}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": f"{number} " * 400}
        messages += [{"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    return messages


def results(engine: MockEngine) -> list[str]:
    """The number of each result that the engine sees; "-" for one that was cleared."""
    shown = [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]
    return ["-" if each == CLEARED else each.partition(" ")[0] for each in shown]


def uses(trigger: int, keep: int, **more: Any) -> Body:
    amounts = {"trigger": {"type": "tool_uses", "value": trigger}, "keep": {"type": "tool_uses", "value": keep}}
    return edited(type="clear_tool_uses_20250919", **amounts, **more)


async def test_results_are_cleared_in_steps_and_the_prompt_stays_the_same(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    before: list[Body] = []
    seen = {}
    for count in range(1, 9):
        message = await create(gateway, turns(count), **uses(3, 1))
        sent = engine.last["messages"]
        seen[count] = (results(engine), sent[: len(before)] == before)
        before = sent
        (edit,) = message["context_management"]["applied_edits"] or [{"cleared_tool_uses": 0, "cleared_input_tokens": 0}]
        assert edit["cleared_tool_uses"] == results(engine).count("-")
        assert (edit["cleared_input_tokens"] > 0) is ("-" in results(engine))
    assert seen == {
        1: (["0"], True),
        2: (["0", "1"], True),
        3: (["0", "1", "2"], True),
        # More than three: all but the last one.
        4: (["-", "-", "-", "3"], False),
        5: (["-", "-", "-", "3", "4"], True),
        6: (["-", "-", "-", "3", "4", "5"], True),
        7: (["-", "-", "-", "-", "-", "-", "6"], False),
        8: (["-", "-", "-", "-", "-", "-", "6", "7"], True),
    }


async def test_what_is_cleared_can_be_chosen(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await create(gateway, turns(3), **uses(1, 0, exclude_tools=["look"]))
    assert results(engine) == ["0", "1", "2"]
    await create(gateway, turns(3), **uses(1, 0, clear_at_least={"type": "input_tokens", "value": 100_000}))
    assert results(engine) == ["0", "1", "2"]
    await create(gateway, turns(3), **uses(2, 1, clear_tool_inputs=["look"]))
    arguments = [call["function"]["arguments"] for message in engine.last["messages"] for call in message.get("tool_calls", ())]
    assert (results(engine), arguments[0], len(arguments[2]) > 400) == (["-", "-", "2"], "{}", True)


async def test_many_tokens_clear_results_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    few = {"trigger": {"type": "input_tokens", "value": 1000}}
    events = await stream(gateway, turns(5), **edited(type="clear_tool_uses_20250919", **few))
    assert results(engine) == ["-", "-", "2", "3", "4"]
    assert fold(events)["context_management"]["applied_edits"][0]["type"] == "clear_tool_uses_20250919"
    message = await create(gateway, turns(5), **edited(type="clear_tool_uses_20250919"))
    assert (results(engine), message["context_management"]) == (["0", "1", "2", "3", "4"], {"applied_edits": []})


# ---- compactions -------------------------------------------------------------------------------------------------------


def texts(engine: MockEngine) -> list[str]:
    """Without the words that introduce a summary."""
    return [str(message["content"]).rpartition("summary of it:\n\n")[2] for message in engine.last["messages"]]


def compacting(**edit: Any) -> Body:
    return edited(type="compact_20260112", trigger={"type": "input_tokens", "value": 1000}, **edit)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_long_history_is_compacted_and_its_summary_comes_back(
    gateway: GatewayUnderTest, engine: MockEngine, streams: bool
) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."), text("Yes."))
    given = compacting(instructions="Name every tea.")
    message = fold(await stream(gateway, TALK, **given)) if streams else await create(gateway, TALK, **given)
    block, said = message["content"]
    assert (block["type"], block["content"]) == ("compaction", "They talked about tea.")
    assert block["encrypted_content"].startswith("antiphon1.")
    assert (said["text"], message["stop_reason"]) == ("Coffee is a drink.", "end_turn")
    assert engine.requests[0]["messages"][-1]["content"].endswith("\n\nName every tea.")
    assert texts(engine) == ["They talked about tea.", "And coffee?"]
    history = [*TALK, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": "Milk?"}]
    await create(gateway, history, **given)
    assert texts(engine) == ["They talked about tea.", "And coffee?", "Coffee is a drink.", "Milk?"]


async def test_a_client_may_look_at_the_summary_first(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY)
    message = fold(await stream(gateway, TALK, **compacting(pause_after_compaction=True)))
    assert [block["type"] for block in message["content"]] == ["compaction"]
    assert message["stop_reason"] == "compaction"
    assert len(engine.requests) == 1


@pytest.mark.parametrize("words", [None, "List the teas."])
async def test_a_summary_can_be_all_that_is_asked_for(gateway: GatewayUnderTest, engine: MockEngine, words: str | None) -> None:
    engine.will(SUMMARY, text("Yes."))
    message = await create(gateway, TALK, compaction={"type": "summarize", "instructions": words})
    (block,) = message["content"]
    assert (block["content"], message["stop_reason"]) == ("They talked about tea.", "compaction")
    asked = engine.last["messages"][-1]["content"]
    assert asked == words if words else "hand-over" in asked
    await create(gateway, [{"role": "user", "content": [block]}, {"role": "user", "content": "Milk?"}])
    assert texts(engine)[-1] == "Milk?"
    assert "They talked about tea." in texts(engine)


async def test_the_summary_of_another_server_counts_by_its_words(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    changes = [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "look"}}]
    block = {
        "type": "compaction",
        "content": "Tea is good.",
        "encrypted_content": "foreign",
        "signature": "s",
        "tool_changes": changes,
    }
    look = {"name": "look", "input_schema": {"type": "object"}}
    await create(gateway, [*TALK[:2], {"role": "assistant", "content": [block]}, TALK[2]], tools=[look])
    assert (texts(engine), "tools" in engine.last, gateway.notice) == (["Tea is good.", "And coffee?"], False, "")
    failed = {"type": "compaction", "content": None}
    await create(gateway, [*HI, {"role": "assistant", "content": [failed]}, TALK[2]])
    assert (texts(engine), gateway.notice) == (["Hi", "And coffee?"], "")


async def test_a_summary_that_is_cut_off_is_none(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("They", finish="length"))
    message = await create(gateway, TALK, compaction={"type": "summarize"})
    assert (message["content"][0]["content"], message["stop_reason"]) == (None, "max_tokens")


async def test_two_ways_to_compact_exclude_one_another(gateway: GatewayUnderTest) -> None:
    assert "`compaction`" in await refused(gateway, compaction={"type": "summarize"}, **compacting())


# ---- where a window ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("used", "reason"), [(4000, "model_context_window_exceeded"), (500, "max_tokens")])
async def test_an_answer_that_fills_the_window_says_so(used: int, reason: str) -> None:
    usage = {"prompt_tokens": used, "completion_tokens": 96, "total_tokens": used + 96}
    cut = chunk({"content": "Hel"}) + chunk(finish="length") + chunk(usage=usage)
    engine = MockEngine(owned_by="vllm")
    engine._models["data"][0]["max_model_len"] = 4096
    engine.will(cut, cut)
    async with started(engine), running_gateway(engine) as gateway:
        message = await create(gateway, max_tokens=200)
        assert message["stop_reason"] == reason
        assert (await create(gateway, max_tokens=96))["stop_reason"] == "max_tokens"
