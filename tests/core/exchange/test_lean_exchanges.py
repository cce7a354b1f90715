"""What a request costs, counted and not timed: nothing is made that it does not use, and what comes again is made once."""

import gc
import weakref
from typing import Any

import msgspec
from support.exchanges import make_environment
from support.operations import count_calls

from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.help import NO_HELP, Help
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.prompt.stored_form import items_to_stored_form
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.recording.recording import Recording
from antiphon.core.toolbox.cache import KnownToolboxes, toolbox_key
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.wire.responses import CreateResponse

SHELL = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {"n": {"minimum": 1}}}}
PATCH = {"type": "apply_patch"}
ANSWER = b"".join(
    b"data: %s\n\n" % data
    for data in (
        b'{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}]}',
        b'{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}',
        b'{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}}',
        b"[DONE]",
    )
)


def known_engine() -> EngineKnowledge:
    return EngineKnowledge(PLAIN, [Model("m", 0, "somebody")])


def request_with(**members: Any) -> CreateResponse:
    return CreateResponse(**{"model": "m", "input": "hi", **members})


def history(turns: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for turn in range(turns):
        id = f"call_{turn}"
        items += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"step {turn}"}]},
            {"type": "function_call", "name": "shell", "arguments": '{"n": 1}', "call_id": id},
            {"type": "function_call_output", "call_id": id, "output": "done " * 200},
        ]
    return items


def calls_of(request: CreateResponse, environment: Environment) -> int:
    engines = [known_engine()]
    Exchange(request, engines, environment)
    return count_calls(lambda: Exchange(request, engines, environment))


# ---- how much work it is ---------------------------------------------------------------------------------------------


def test_a_small_request_is_prepared_in_few_calls() -> None:
    """131 functions are called, those written in C included; it was 400 before what most requests do not use was left out."""
    assert calls_of(request_with(), make_environment()) < 134


def test_a_small_answer_is_read_and_finished_in_few_calls() -> None:
    exchange = Exchange(request_with(), [known_engine()], make_environment())
    exchange.start()
    # 152 and 78 functions.
    assert count_calls(lambda: exchange.receive(ANSWER)) < 160
    assert count_calls(lambda: [exchange.finish(), exchange.end()]) < 82


def test_an_item_of_a_history_is_converted_in_few_calls() -> None:
    """29 for each; it was 93."""
    environment = make_environment()
    few, many = (calls_of(request_with(input=history(turns)), environment) for turns in (20, 120))
    assert (many - few) / 300 < 32


def test_an_item_is_brought_into_its_stored_form_in_few_calls() -> None:
    """16 for each; it was 23."""

    def calls(turns: int) -> int:
        items = history(turns)
        return count_calls(lambda: items_to_stored_form(items, str))

    assert (calls(120) - calls(20)) / 300 < 17


def test_an_item_of_a_body_is_checked_in_few_calls() -> None:
    def calls(turns: int) -> int:
        body = msgspec.json.encode({"model": "m", "input": history(turns)})
        return count_calls(lambda: body_to_request(body))

    assert (calls(120) - calls(20)) / 300 < 4


def test_notices_cost_little_where_there_are_none() -> None:
    exchange = Exchange(request_with(), [known_engine()], make_environment())
    assert exchange.notices == []
    assert count_calls(lambda: exchange.notices) < 11


# ---- what is made once -----------------------------------------------------------------------------------------------


def box_of(tools: list[dict[str, Any]], environment: Environment, **members: Any) -> Toolbox:
    exchange = Exchange(request_with(tools=tools, **members), [known_engine()], environment)
    return exchange._open.question.conversion.box


def test_the_same_tools_are_converted_once() -> None:
    environment = make_environment()
    first = box_of([SHELL, PATCH], environment)
    assert box_of([dict(SHELL), dict(PATCH)], environment.changed(check_grammars=False), tool_choice="none") is first
    assert list(first.offered.functions) == ["shell", "apply_patch"]


def test_tools_that_only_python_takes_for_the_same_are_not() -> None:
    environment = make_environment()
    one = box_of([SHELL], environment)
    true = box_of([{**SHELL, "parameters": {"type": "object", "properties": {"n": {"minimum": True}}}}], environment)
    assert one.in_response[0]["parameters"]["properties"] == {"n": {"minimum": 1}}
    assert true.in_response[0]["parameters"]["properties"]["n"]["minimum"] is True


def test_tools_are_converted_once_for_each_kind_of_help() -> None:
    small = Help(easier_tools=True, reason="it is small")
    assert toolbox_key([PATCH], DEFINITIONS, small) != toolbox_key([PATCH], DEFINITIONS, NO_HELP)


def test_tools_that_the_gateway_runs_are_converted_for_every_request() -> None:
    """They may have secrets, and what they are may change while the gateway runs."""
    definitions = {**DEFINITIONS, "mcp": McpTools().define}
    server = {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example.com", "authorization": "secret"}
    assert toolbox_key([SHELL, server], definitions, NO_HELP) is None
    assert toolbox_key([SHELL], definitions, NO_HELP) is not None


def test_tools_that_come_in_items_are_converted_for_every_request() -> None:
    environment = make_environment()
    more = [{"type": "additional_tools", "role": "developer", "tools": [PATCH]}, {"role": "user", "content": "hi"}]
    assert list(box_of([SHELL], environment, input=more).offered.functions) == ["shell", "apply_patch"]
    assert list(box_of([SHELL], environment).offered.functions) == ["shell"]


def test_only_so_many_toolboxes_are_known_those_that_were_used_last() -> None:
    keys = [toolbox_key([{**SHELL, "name": name}], DEFINITIONS, NO_HELP) for name in ("a", "b", "c")]
    known = KnownToolboxes(most=2)
    for key in keys[:2]:
        assert key is not None
        known.add(key, tools_to_box([SHELL]))
    a, b, c = keys
    assert a is not None and b is not None and c is not None  # noqa: PT018
    known.get(a)
    known.add(c, tools_to_box([SHELL]))
    assert known.get(b) is None
    assert known.get(a) is not None
    assert known.get(c) is not None


def test_only_so_many_bytes_of_tools_are_known() -> None:
    small, large = (toolbox_key([{**SHELL, "description": "x" * size}], DEFINITIONS, NO_HELP) for size in (10, 5000))
    assert small is not None
    assert large is not None
    known = KnownToolboxes(most_bytes=4000)
    known.add(small, tools_to_box([SHELL]))
    known.add(large, tools_to_box([SHELL]))
    assert known.get(large) is None
    known.add(small, tools_to_box([SHELL]))
    assert known.get(small) is not None


def test_the_dialect_of_a_model_is_made_once_until_something_is_learned() -> None:
    engine = known_engine()
    engine.learn("m", {"shows_tools": False})
    before = engine.dialect_for("m")
    assert before is engine.dialect_for("m") is engine.traits_of("m", "auto").dialect
    engine.learn("m", {"reports_usage": False})
    after = engine.traits_of("m", "auto").dialect
    assert (after.shows_tools, after.reports_usage) == (False, False)


def test_the_help_for_a_model_follows_what_its_engine_reports() -> None:
    engine = known_engine()
    assert not engine.traits_of("m", "auto").help
    engine.models = (Model("m", 0, "somebody", parameters=1_000_000_000),)
    assert engine.traits_of("m", "auto").help.stops_loops
    assert not engine.traits_of("m", "off").help


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_an_exchange_is_freed_as_soon_as_nobody_has_it() -> None:
    """With all items and the chat request. Otherwise they would stay in memory until the garbage collector looks for cycles."""
    environment = make_environment()
    for members in ({}, {"tools": [SHELL, PATCH]}, {"input": history(2)}):
        exchange = Exchange(request_with(**members), [known_engine()], environment)
        exchange.start()
        exchange.receive(ANSWER)
        question = weakref.ref(exchange._open.question)
        gc.disable()
        try:
            del exchange
            assert question() is None
        finally:
            gc.enable()


def test_an_exchange_has_few_enough_attributes_to_share_their_names() -> None:
    """With 30 or more, Python gives each object a dictionary of its own, of 1.6 KB."""
    environment = make_environment()
    recording = Recording(b"{}", environment.now)
    exchange = recording.make_exchange(request_with(), [known_engine()], environment, history=())
    assert len(vars(exchange)) < 30
