"""Nothing is made that a request does not use, what comes again is made once, and nothing stays in memory."""

import gc
import weakref
from typing import Any

from support.exchanges import make_environment

from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.help import NO_HELP, Help
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.recording.recording import Recording
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.core.toolbox.request_tools import KnownToolboxes, toolbox_key, tools_to_box
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
