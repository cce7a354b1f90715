"""How the tokens of an answer are chosen where the request does not say: what is sent, and what the response echoes."""

from typing import Any

import msgspec
import pytest
from support.engine import answer, call, text
from support.exchanges import Recorder, run_answers
from support.toy_tool import DICE, Dice, roll

from antiphon.core.knowledge.dialects import BY_NAME, LLAMACPP, PLAIN
from antiphon.core.knowledge.help import ENGINE_DEFAULT, NO_HELP, Help, Sampling
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.prompt.conversation import TRIGGER
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.errors import EngineUnavailable
from antiphon.sealing import Sealer
from antiphon.wire.responses import CreateResponse

DRY = {"dry_multiplier": 0.5, "dry_allowed_length": 3}
SAMPLING = Sampling(temperature=0.2, top_p=0.9, most_tokens=1024, free_extra=DRY)
COOL = {"temperature": 0.2, "top_p": 0.9}
CAP = {"max_completion_tokens": 1024}
SAMPLED = {"temperature", "top_p", "max_tokens", "max_completion_tokens", *DRY, *LLAMACPP.constrained_extra}
F: dict[str, Any] = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
SCHEMA = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}
SEALER = Sealer(lambda text: text, lambda blob: blob)
CUT_OFF = "the answer was cut off: this model writes 1024 tokens at most unless max_output_tokens is set"


def sampled(*, dialect: Any = LLAMACPP, sampling: Sampling = SAMPLING) -> EngineKnowledge:
    knowledge = EngineKnowledge(dialect, [Model(id="smollm2", created=0, owned_by="antiphon")])
    knowledge.sampling = {"smollm2": sampling}
    return knowledge


def sent(fields: dict[str, Any], knowledge: EngineKnowledge | None = None, help: Help = NO_HELP) -> dict[str, Any]:
    """The fields of the chat request that choose tokens."""
    knowledge = knowledge or sampled()
    request = msgspec.convert({"model": "any", "input": "Hi", **fields}, CreateResponse)
    items = request.input if isinstance(request.input, list) else [{"role": "user", "content": request.input}]
    sampling = knowledge.sampling_for("any")
    chat = request_to_chat(ChatInputs(request, items, knowledge.dialect_for("any"), "any", help=help, sampling=sampling)).chat
    return {name: value for name, value in msgspec.to_builtins(chat).items() if name in SAMPLED}


def echoed(response: dict[str, Any]) -> tuple[Any, ...]:
    return response["temperature"], response["top_p"], response["max_output_tokens"]


def chosen(chat: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chat.items() if name in SAMPLED}


# ---- what is sent ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {**COOL, **CAP, **DRY}),
        ({"text": {"format": {"type": "text"}}}, {**COOL, **CAP, **DRY}),
        ({"temperature": 0}, {"temperature": 0, "top_p": 0.9, **CAP, **DRY}),
        ({"top_p": 1}, {"temperature": 0.2, "top_p": 1, **CAP, **DRY}),
        ({"max_output_tokens": 8}, {**COOL, "max_completion_tokens": 8, **DRY}),
        ({"max_output_tokens": 4000}, {**COOL, "max_completion_tokens": 4000, **DRY}),
    ],
    ids=str,
)
def test_what_the_request_says_counts_and_the_models_sampling_fills_the_rest(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert sent(fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [F]},
        {"tools": [F], "tool_choice": "required"},
        {"tools": [F], "tool_choice": "none"},
        {"tools": [F], "text": SCHEMA},
        {"input": [{"type": "additional_tools", "tools": [F]}, {"role": "user", "content": "Hi"}]},
    ],
    ids=str,
)
def test_with_tools_an_answer_is_cooler_but_neither_cut_off_nor_kept_from_repeating_itself(fields: dict[str, Any]) -> None:
    assert {**DRY, **CAP}.items() & sent(fields).items() == set()
    assert sent(fields).items() >= COOL.items()
    assert sent({**fields, "max_output_tokens": 8})["max_completion_tokens"] == 8


@pytest.mark.parametrize("text", [SCHEMA, {"format": {"type": "json_object"}}], ids=str)
def test_an_answer_with_a_format_is_capped_and_may_repeat_itself_as_in_any_dialect(text: dict[str, Any]) -> None:
    assert sent({"text": text}) == {**COOL, **CAP, **LLAMACPP.constrained_extra}
    # Also where the format is in the prompt only.
    assert sent({"text": text}, sampled(dialect=PLAIN)) == {**COOL, "max_tokens": 1024}


def test_a_held_answer_gets_the_extra_fields_of_constrained_answers_and_no_others() -> None:
    """It may be a text, and it is constrained all the same."""
    assert sent({"tools": [F]}, help=Help(constrains_answers=True)) == {**COOL, **LLAMACPP.constrained_extra}


def test_a_constraint_on_free_text_leaves_the_extra_fields_out() -> None:
    knowledge = sampled()
    knowledge.learn("smollm2", {"answer_prefix": "<answer>", "spells_prefix": True})
    assert sent({}, knowledge) == {**COOL, **CAP}


@pytest.mark.parametrize("tools", [[], [F]], ids=["without tools", "with tools"])
def test_a_summary_is_not_capped(tools: list[Any]) -> None:
    items = [{"role": "user", "content": "Tell me about tea"}, {"type": TRIGGER}]
    assert sent({"input": items, "tools": tools}) == {**COOL, **DRY}


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=str)
@pytest.mark.parametrize(
    "fields", [{}, {"tools": [F]}, {"text": SCHEMA}, {"temperature": 0.7, "max_output_tokens": 3}], ids=str
)
def test_without_a_sampling_nothing_is_added(dialect: Any, fields: dict[str, Any]) -> None:
    given = {"temperature": 0.7, dialect.max_tokens_member: 3} if "temperature" in fields else {}
    formats = dialect.constrained_extra if "text" in fields else {}
    assert sent(fields, sampled(dialect=dialect, sampling=ENGINE_DEFAULT)) == {**given, **formats}


def test_a_sampling_is_that_of_one_model() -> None:
    knowledge = sampled()
    assert knowledge.sampling_for("any other name for the only model") == SAMPLING
    knowledge.models = (*knowledge.models, Model(id="qwen", created=0, owned_by="antiphon"))
    assert knowledge.sampling_for("smollm2") == SAMPLING
    assert knowledge.sampling_for("qwen") == ENGINE_DEFAULT


# ---- what the response says ------------------------------------------------------------------------------------------


def test_every_event_echoes_what_was_used() -> None:
    events = run_answers({}, text("Blue"), engines=[sampled()])
    assert {echoed(event["response"]) for event in events if "response" in event} == {(0.2, 0.9, 1024)}
    (response,) = [event["response"] for event in run_answers({}, text("Blue"))[-1:]]
    assert echoed(response) == (1.0, 1.0, None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0.7, "max_output_tokens": 3000}, (0.7, 0.9, 3000)),
        ({"top_p": 0.5, "tools": [F]}, (0.2, 0.5, None)),
    ],
    ids=str,
)
def test_what_the_request_says_is_echoed(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    events = run_answers(fields, text("Blue"), engines=[sampled()])
    assert echoed(events[-1]["response"]) == expected


def test_an_answer_at_its_cap_is_incomplete_and_says_how_to_get_a_longer_one() -> None:
    response = run_answers({}, text("On and on", finish="length"), engines=[sampled()])[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert response["antiphon_notices"] == [CUT_OFF]


@pytest.mark.parametrize(
    ("fields", "finish"), [({}, "stop"), ({"max_output_tokens": 5}, "length"), ({"tools": [F]}, "length")], ids=str
)
def test_an_answer_that_ends_otherwise_has_no_such_notice(fields: dict[str, Any], finish: str) -> None:
    response = run_answers(fields, text("Blue", finish=finish), engines=[sampled()])[-1]["response"]
    assert "antiphon_notices" not in response


# ---- several engine answers ------------------------------------------------------------------------------------------


def test_the_engine_that_answers_decides() -> None:
    asked = Recorder()
    other = EngineKnowledge(LLAMACPP, [Model(id="qwen", created=0, owned_by="llamacpp")])
    away = EngineUnavailable("away", retry_after=1)
    events = run_answers({}, away, text("Blue"), engines=[sampled(), other], on_ask=asked)
    assert [chosen(chat) for chat in asked.chats] == [{**COOL, **CAP, **DRY}, {}]
    assert echoed(events[-1]["response"]) == (1.0, 1.0, None)
    events = run_answers({}, away, text("Blue"), engines=[other, sampled()])
    assert echoed(events[-1]["response"]) == (0.2, 0.9, 1024)


def chats_of_rounds(tools: list[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The chat requests of a response that runs a tool of the gateway once, and then has to answer; and its events."""
    asked = Recorder()
    rolled = answer(call("roll", '{"sides": 6}'), finish="tool_calls")
    events = run_answers(
        {"tools": tools},
        rolled,
        text("Six"),
        engines=[sampled()],
        on_ask=asked,
        tools={"dice": Dice()},
        run_tool=roll,
        most_rounds=1,
    )
    assert ["tools" in chat for chat in asked.chats] == [True, False]
    return asked.chats, events


@pytest.mark.parametrize(
    "of_client", [[F], [{"type": "tool_search"}, {**F, "defer_loading": True}]], ids=["offered", "deferred"]
)
def test_with_a_tool_of_the_client_no_round_is_capped_even_the_last_one_which_is_offered_none(of_client: list[Any]) -> None:
    chats, events = chats_of_rounds([DICE, *of_client])
    assert [chosen(chat) for chat in chats] == [COOL, COOL]
    assert echoed(events[-1]["response"]) == (0.2, 0.9, None)


def test_where_the_gateway_runs_all_tools_every_round_is_capped_and_kept_from_repeating_itself() -> None:
    """No agent waits for the call: a model that repeats itself would only fill its window."""
    chats, events = chats_of_rounds([DICE])
    assert [chosen(chat) for chat in chats] == 2 * [{**COOL, **CAP, **DRY}]
    assert echoed(events[-1]["response"]) == (0.2, 0.9, 1024)


def test_the_second_ask_for_a_format_is_sampled_as_the_first_one() -> None:
    asked = Recorder()
    knowledge = sampled()
    knowledge.learn("smollm2", {"constrains_json": False})
    run_answers({"text": SCHEMA}, text("no JSON"), text("{}"), engines=[knowledge], on_ask=asked)
    assert [chosen(chat) for chat in asked.chats] == 2 * [{**COOL, **CAP, **LLAMACPP.constrained_extra}]


def test_a_history_is_compacted_without_a_cap_and_then_answered_with_it() -> None:
    asked = Recorder()
    history = [
        {"role": "user", "content": "Tell me about tea"},
        {"role": "assistant", "content": "tea " * 1000},
        {"role": "user", "content": "And coffee?"},
    ]
    fields = {"input": history, "context_management": [{"type": "compaction", "compact_threshold": 1000}]}
    events = run_answers(
        fields, text("They talked about tea."), text("It is black."), engines=[sampled()], on_ask=asked, sealer=SEALER
    )
    assert [chosen(chat) for chat in asked.chats] == [{**COOL, **DRY}, {**COOL, **CAP, **DRY}]
    assert echoed(events[-1]["response"]) == (0.2, 0.9, 1024)
