"""What holds of every history, every chunking and every garbage."""

import contextlib
import itertools
import re
from collections import deque
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.demands import complaint, shown
from support.engine import objection, text
from support.streams import check_stream, parse
from support.sync_runs import replay, run_exchange

from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.response_object import request_to_response
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.content_parts import CONVERTERS as PARTS
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.prompt.item_types import ITEM_TYPES
from antiphon.core.prompt.stored_form import check_items, items_to_stored_form
from antiphon.core.prompt.template_rules import apply_template_rules
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.errors import InvalidRequest
from antiphon.sealing import Sealer
from antiphon.wire.responses import CreateResponse

dialects = st.sampled_from(list(BY_NAME.values()))
FREE = replace(BY_NAME["plain"], reasoning_member="reasoning_content")
# Whatever the chat template of a model demands.
demands = st.fixed_dictionaries(
    {},
    optional={
        "takes_system_role": st.booleans(),
        "alternates": st.booleans(),
        "begins_with_user": st.booleans(),
        "answers_results": st.booleans(),
        "call_id_length": st.sampled_from([None, 9, 12]),
        "takes_parallel_calls": st.booleans(),
        "shows_text_with_calls": st.booleans(),
        "shows_reasoning": st.booleans(),
        "reasoning_member": st.sampled_from([None, "reasoning", "reasoning_content"]),
        "shows_tools": st.booleans(),
        "continues_last_message": st.booleans(),
    },
)
demanding_dialects = st.builds(lambda dialect, facts: replace(dialect, **facts), dialects, demands)
words = st.text(alphabet='ab {}"\\\n<>é', max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def convert(items: list[Any], dialect: Dialect, **fields: Any) -> list[dict[str, Any]]:
    """The chat messages, through the bytes of a request and of a chat request, held against a strict engine."""
    request, _ = body_to_request(msgspec.json.encode({"input": items, **fields}))
    chat = request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m")).chat
    body = msgspec.json.decode(msgspec.json.encode(chat))
    assert objection(body, own_fields=dialect.extra) is None
    messages: list[dict[str, Any]] = body["messages"]
    assert complaint(messages, dialect) is None
    return messages


# ---- anything at all -------------------------------------------------------------------------------------------------

kinds = st.sampled_from([*ITEM_TYPES, "item_reference", "mystery"])
members = st.sampled_from(
    "role content call_id name arguments output summary id input tools action operation encrypted_content author".split()
)
any_item = st.one_of(
    st.builds(lambda kind, rest: {**rest, "type": kind}, kinds, st.dictionaries(members, json_values, max_size=5)),
    st.builds(lambda kind, rest: {**rest, "type": kind, "call_id": "c"}, kinds, st.dictionaries(members, json_values)),
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system", "developer", "king"]),
        words | json_values,
    ),
    json_values,
)


@given(st.lists(any_item, max_size=8), demanding_dialects)
def test_any_history_converts_or_is_a_clean_400(items: list[Any], dialect: Dialect) -> None:
    try:
        messages = convert(items, dialect)
    except InvalidRequest as refused:
        clean = refused.status == 400 and refused.param is not None
    else:
        clean = bool(messages)
    assert clean


# ---- what was accepted once -------------------------------------------------------------------------------------------

part = st.builds(
    lambda kind, text, rest: {"type": kind, "text": text, "refusal": text, **rest},
    st.sampled_from([*PARTS, "mystery"]),
    words,
    st.fixed_dictionaries(
        {},
        optional={
            "image_url": st.sampled_from(["data:x", None]),
            "detail": st.sampled_from(["auto", "low", None]),
            "file_data": st.sampled_from(["aGk=", "!", None]),
            "annotations": st.none(),
        },
    ),
)
contents = words | st.lists(part, max_size=2)
found_tool = st.fixed_dictionaries({"type": st.sampled_from(["function", "mcp"]), "name": words | st.just("f")})
likely_item = st.builds(
    lambda kind, id, rest: {**rest, "type": kind, "id": id, "call_id": "c"} if id else {**rest, "type": kind},
    kinds,
    st.sampled_from(["a", "b", None]),
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "developer"]), "content": contents, "name": st.just("f")},
        optional={
            "call_id": st.sampled_from(["c", "d"]),
            "arguments": words | st.just({"a": 1}) | st.none(),
            "output": contents | part | st.none(),
            "summary": st.lists(part, max_size=1) | st.none(),
            "input": words,
            "action": st.just({"command": ["ls"], "env": {}}) | st.none(),
            "operation": st.just({"type": "delete_file", "path": "a"}) | st.none(),
            "status": st.sampled_from(["completed", "failed", None]),
            "tools": st.lists(found_tool, max_size=2) | st.none(),
            "encrypted_content": words | st.none(),
        },
    ),
)
GO_ON = {"role": "user", "content": "Go on."}


@given(st.lists(likely_item | any_item, max_size=6), demanding_dialects)
def test_a_history_that_was_accepted_converts_for_ever_and_is_the_same_prompt_once_it_is_stored(
    items: list[Any], dialect: Dialect
) -> None:
    items = [item for item in items if isinstance(item, dict)]
    accepted: list[dict[str, Any]] = []
    for item in items:
        with contextlib.suppress(InvalidRequest):
            check_items([item], before=accepted)
            accepted.append(item)
    check_items(accepted)
    numbers = itertools.count()
    stored = items_to_stored_form(accepted, lambda prefix: f"{prefix}_{next(numbers)}")
    check_items(stored)
    request = CreateResponse(input=[GO_ON])
    first = request_to_chat(ChatInputs(request, [*accepted, GO_ON], dialect, "m")).chat
    later = request_to_chat(ChatInputs(request, [*stored, GO_ON], dialect, "m", earlier=len(stored))).chat
    assert objection(msgspec.json.decode(msgspec.json.encode(later)), own_fields=dialect.extra) is None
    assert later.messages == first.messages


@given(st.lists(likely_item | any_item, max_size=6), dialects)
def test_a_history_that_was_stored_unchecked_converts_too(items: list[Any], dialect: Dialect) -> None:
    items = [item for item in items if isinstance(item, dict)]
    items += items_to_stored_form(items, lambda prefix: prefix)
    request = CreateResponse(input=[GO_ON])
    chat = request_to_chat(ChatInputs(request, [*items, GO_ON], dialect, "m", earlier=len(items))).chat
    assert objection(msgspec.json.decode(msgspec.json.encode(chat)), own_fields=dialect.extra) is None
    assert chat.messages


# ---- conversations ---------------------------------------------------------------------------------------------------


def message(role: str, text: Any) -> dict[str, Any]:
    return {"role": role, "content": text}


@st.composite
def turn(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """What a model says in one turn, and what the client sends back: the shape of a coding agent's history."""
    items: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 2))):
        thought = {"type": "reasoning_text", "text": draw(words)}
        items.append({"type": "reasoning", "summary": [], "content": [thought]})
    calls = [f"call_{number}_{at}" for at in range(draw(st.integers(0, 3)))]
    if not calls or draw(st.booleans()):
        items.append(message("assistant", draw(words)))
    items += [{"type": "function_call", "call_id": call, "name": "f", "arguments": draw(words)} for call in calls]
    outputs = []
    for call in draw(st.permutations(calls)):
        image = {"type": "input_image", "image_url": "data:x"}
        outputs.append({"type": "function_call_output", "call_id": call, "output": draw(st.one_of(words, st.just([image])))})
    items += outputs
    if not calls or draw(st.booleans()):
        items.append(message(draw(st.sampled_from(["user", "developer"])), "x" + draw(words)))
    return items


@st.composite
def conversation(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    first = [message("developer", "Be kind."), message("user", draw(words))]
    return [first, *(draw(turn(number)) for number in range(draw(st.integers(1, 5))))]


@given(conversation(), demanding_dialects)
def test_each_turns_messages_are_a_prefix_of_the_next_ones(turns: list[list[dict[str, Any]]], dialect: Dialect) -> None:
    before: list[dict[str, Any]] = []
    for count in range(1, len(turns) + 1):
        items = [item for part in turns[:count] for item in part]
        after = convert(items, dialect, instructions="Head.")
        assert after[: len(before)] == before
        before = after


# ---- the demands of chat templates -------------------------------------------------------------------------------------


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def called(call_id: str, argument: str) -> dict[str, Any]:
    arguments = msgspec.json.encode({"x": argument}).decode()
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}


def result(call_id: str, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


@st.composite
def marked_turn(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """What a model says and calls, and what it gets back. Each text has a mark: its kind and a number. Some calls are
    interrupted, and some results are images."""
    items = [thought(f"R{number}{at};") for at in "ab"[: draw(st.integers(0, 2))]]
    calls = [f"call_{number}_{at}" if draw(st.booleans()) else f"call{number}abc{at}" for at in range(draw(st.integers(0, 3)))]
    if not calls or draw(st.booleans()):
        items.append(message("assistant", draw(st.sampled_from(["", f"T{number};"]))))
    items += [called(id, f"C{number}{at};") for at, id in enumerate(calls)]
    for at, id in draw(st.permutations(list(enumerate(calls)))):
        mark = f"O{number}{at};"
        output = draw(st.sampled_from([mark, [{"type": "input_image", "image_url": f"data:{mark}"}], None]))
        items += [result(id, output)] if output is not None else []
    interrupted = len([item for item in items if item.get("type") == "function_call_output"]) < len(calls)
    if not calls or interrupted or draw(st.booleans()):
        items += [
            message(draw(st.sampled_from(["user", "developer"])), f"U{number}{at};") for at in "ab"[: draw(st.integers(1, 2))]
        ]
    return items


BEGINNINGS = [
    [message("user", "U0;")],
    [message("developer", "S0;"), message("user", "U0;"), message("user", "U1;")],
    [message("user", [{"type": "input_image", "image_url": "data:U0;"}])],
    [message("user", "<tool_response>U0;</tool_response>")],
    [message("developer", "S0;")],
    [message("assistant", "T0;"), message("user", "U0;")],
    [called("call_0", "C0;"), result("call_0", "O0;")],
    [thought("R0;"), message("assistant", ""), message("user", "U0;")],
]


@st.composite
def marked_conversation(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    return [draw(st.sampled_from(BEGINNINGS)), *(draw(marked_turn(number)) for number in range(1, draw(st.integers(1, 5))))]


def marks(messages: list[dict[str, Any]], kinds: str) -> list[str]:
    return re.findall(f"[{kinds}]\\d+[ab]?;", shown(messages))


@given(marked_conversation(), demanding_dialects)
def test_the_messages_satisfy_every_demand_and_keep_everything_in_order(
    turns: list[list[dict[str, Any]]], dialect: Dialect
) -> None:
    items = [item for part in turns for item in part]
    free, sent = convert(items, FREE), convert(items, dialect)
    kinds = "STCOU" + "R" * dialect.shows_reasoning
    said = sorted(re.findall(r"[STCOUR]\d+[ab]?;", str(items)))
    assert sorted(marks(free, "STCOUR")) == said
    # A result may come before the next call, and a text before the thought of its calls.
    for order in ("STCU", "STOU", "SUR" if dialect.shows_reasoning else "SU"):
        assert marks(sent, order) == marks(free, order)
    assert sorted(marks(sent, "STCOUR")) == [mark for mark in said if mark[0] in kinds]


@given(marked_conversation(), demanding_dialects)
def test_each_turns_messages_are_a_prefix_of_the_next_ones_whatever_is_demanded(
    turns: list[list[dict[str, Any]]], dialect: Dialect
) -> None:
    before: list[dict[str, Any]] = []
    for count in range(1, len(turns) + 1):
        after = convert([item for part in turns[:count] for item in part], dialect)
        assert after[: len(before)] == before
        before = after


@given(marked_conversation(), demanding_dialects)
def test_messages_that_satisfy_the_demands_stay_as_they_are(turns: list[list[dict[str, Any]]], dialect: Dialect) -> None:
    request = CreateResponse(input=[])
    once = request_to_chat(ChatInputs(request, [item for part in turns for item in part], dialect, "m")).chat.messages
    assert apply_template_rules(once, dialect) == (once, [])


@st.composite
def repeating_turn(draw: st.DrawFn, number: int, question: dict[str, Any]) -> list[dict[str, Any]]:
    """What a client sends that continues a stored response: the calls again, the user's message again or another one, and the
    outputs."""
    calls = [
        {"type": "function_call", "call_id": f"call_{number}_{at}", "name": "f", "arguments": draw(words)}
        for at in range(draw(st.integers(1, 3)))
    ]
    again = draw(st.lists(st.sampled_from(calls), unique_by=lambda call: str(call["call_id"])))
    between = draw(st.lists(st.sampled_from([question, message("user", "Hurry")]), max_size=2))
    outputs = [{"type": "function_call_output", "call_id": call["call_id"], "output": "done"} for call in calls]
    return [*calls, *draw(st.permutations([*again, *between])), *draw(st.permutations(outputs))]


@st.composite
def repeating_conversation(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    question = message("user", "Q" + draw(words))
    return [[question], *(draw(repeating_turn(number, question)) for number in range(draw(st.integers(1, 4))))]


@given(repeating_conversation(), dialects.filter(lambda dialect: not dialect.alternates))
def test_a_prompt_ends_with_the_outputs_and_has_each_call_once_whatever_is_repeated(
    turns: list[list[dict[str, Any]]], dialect: Dialect
) -> None:
    before: list[dict[str, Any]] = []
    for count in range(1, len(turns) + 1):
        items = [item for part in turns[:count] for item in part]
        after = convert(items, dialect)
        assert after[: len(before)] == before
        before = after
    if dialect.shows_tools:
        assert before[-1]["role"] == "tool"
        calls = [call["id"] for each in before for call in each.get("tool_calls", ())]
        assert sorted(calls) == sorted({item["call_id"] for part in turns for item in part if "call_id" in item})
        assert all(each["content"] == "done" for each in before if each["role"] == "tool")


@given(conversation(), dialects)
def test_the_same_request_gives_the_same_bytes(turns: list[list[dict[str, Any]]], dialect: Dialect) -> None:
    items = [item for part in turns for item in part]
    assert convert(items, dialect) == convert(items, dialect)


# ---- compactions -------------------------------------------------------------------------------------------------------

SEALER = Sealer(lambda text: text, lambda blob: blob)
GO_ON = {"role": "user", "content": "Go on."}


def begin(items: list[Any], dialect: Dialect, history: list[Any] | None = None, *, compact: bool = False) -> Exchange:
    request, _ = body_to_request(msgspec.json.encode({"input": items}))
    environment = Environment(new_id=lambda prefix: f"{prefix}_1", now=lambda: 1, sealer=SEALER)
    return Exchange(request, [EngineKnowledge(dialect)], environment, history=history or [], compact=compact)


def messages_of(exchange: Exchange, dialect: Dialect) -> list[dict[str, Any]]:
    body = msgspec.json.decode(msgspec.json.encode(exchange.chat))
    assert objection(body, own_fields=dialect.extra) is None
    messages: list[dict[str, Any]] = body["messages"]
    return messages


def compacted(items: list[Any], dialect: Dialect) -> dict[str, Any]:
    """The compaction of these items."""
    exchange = begin(items, dialect, compact=True)
    deque(run_exchange(exchange, lambda step: [text("In short.")]), maxlen=0)
    item: dict[str, Any] = msgspec.to_builtins(exchange.response.output[0])
    return item


@given(st.lists(any_item, max_size=8), dialects)
def test_whatever_was_compacted_can_be_continued(items: list[Any], dialect: Dialect) -> None:
    try:
        compaction = compacted(items, dialect)
    except InvalidRequest:
        return
    alone = messages_of(begin([compaction, GO_ON], dialect), dialect)
    after_all = messages_of(begin([GO_ON], dialect, [*items, compaction]), dialect)
    for messages in (alone, after_all):
        assert any("In short." in str(message["content"]) for message in messages)


@given(conversation(), st.data(), dialects)
def test_after_a_compaction_each_turns_messages_are_a_prefix_of_the_next_ones(
    turns: list[list[dict[str, Any]]], data: st.DataObject, dialect: Dialect
) -> None:
    at = data.draw(st.integers(1, len(turns)))
    start = [item for part in turns[:at] for item in part]
    items = [*start, compacted(start, dialect)]
    before: list[dict[str, Any]] = []
    for part in ([], *turns[at:]):
        items += part
        after = messages_of(begin(items, dialect), dialect)
        assert after[: len(before)] == before
        # It is the same wherever the items come from.
        assert messages_of(begin(items[-1:], dialect, items[:-1]), dialect) == after
        before = after


# ---- streams ---------------------------------------------------------------------------------------------------------

delta_members = st.fixed_dictionaries(
    {},
    optional={
        "content": words | st.none(),
        "reasoning_content": words | st.none(),
        "reasoning": words | st.none(),
        "refusal": words | st.none(),
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.integers(0, 2),
                    "id": st.sampled_from(["a", "b", ""]),
                    "function": st.fixed_dictionaries(
                        {}, optional={"name": st.sampled_from(["f", "g"]), "arguments": words | st.just({"a": 1}) | st.none()}
                    ),
                },
            ),
            max_size=2,
        ),
    },
)
tagged = st.lists(st.sampled_from(["<think>", "</think>", "<th", "ink>", "a", " ", "\n", "`"]), max_size=6)
chunks = st.one_of(
    st.builds(lambda delta: {"choices": [{"index": 0, "delta": delta}]}, delta_members),
    st.builds(lambda pieces: {"choices": [{"index": 0, "delta": {"content": "".join(pieces)}}]}, tagged),
    st.builds(
        lambda reason: {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        st.sampled_from(["stop", "length", "tool_calls", None, "abort"]),
    ),
    st.just({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}),
    st.just({"error": {"message": "no", "code": 500}}),
    json_values,
)


def stream_of(frames: list[Any], done: bool) -> bytes:
    raw = b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)
    return raw + b"data: [DONE]\n\n" if done else raw


@given(st.lists(chunks, max_size=12), st.booleans(), st.lists(st.integers(0, 3000), max_size=30))
def test_any_split_of_any_stream_gives_the_same_well_formed_events(frames: list[Any], done: bool, cuts: list[int]) -> None:
    raw = stream_of(frames, done)
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    whole = replay([raw])
    assert replay(pieces) == whole
    assert replay([frame + b"\n\n" for frame in raw.split(b"\n\n")[:-1]]) == whole
    check_stream(parse(whole))


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n\n", b'{"choices":[', b"[DONE]", b"\r"]), max_size=20))
def test_any_garbage_from_an_engine_ends_in_exactly_one_terminal_event(pieces: list[bytes]) -> None:
    check_stream(parse(replay(pieces)))


# ---- requests --------------------------------------------------------------------------------------------------------

any_tool = st.one_of(
    st.builds(
        lambda kind, rest: {**rest, "type": kind},
        st.sampled_from([*DEFINITIONS, "web_search", "mystery"]),
        st.dictionaries(
            st.sampled_from("name description parameters strict function format tools execution".split()),
            json_values,
            max_size=5,
        ),
    ),
    json_values,
)
any_choice = st.one_of(
    json_values,
    st.fixed_dictionaries(
        {"type": st.sampled_from([*DEFINITIONS, "allowed_tools", "web_search"]) | json_values},
        optional={
            "name": json_values | st.just("a"),
            "namespace": json_values,
            "mode": st.sampled_from(["auto", "required"]) | json_values,
            "tools": st.lists(st.dictionaries(st.sampled_from(["type", "name", "namespace"]), json_values), max_size=3),
            "function": json_values,
        },
    ),
)
any_field = st.sampled_from(sorted(set(CreateResponse.__struct_fields__) - {"tools"}))
any_body = st.builds(
    lambda fields, tools, choice: {"input": "Hi", "tools": tools, "tool_choice": choice, **fields},
    st.dictionaries(any_field, json_values | st.sampled_from(["auto", "required", "low", "high"]), max_size=4),
    st.lists(any_tool, max_size=4),
    any_choice,
)


@given(any_body, dialects)
def test_any_request_converts_or_is_a_clean_400(body: dict[str, Any], dialect: Dialect) -> None:
    try:
        request, _ = body_to_request(msgspec.json.encode(body))
        conversion = request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m"))
        response = request_to_response(request, conversion.box.in_response, response_id="resp_1", model="m", now=0)
    except InvalidRequest as refused:
        clean = refused.status == 400
    else:
        clean = objection(msgspec.json.decode(msgspec.json.encode(conversion.chat)), own_fields=dialect.extra) is None
        assert msgspec.json.encode(response)
    assert clean
