"""The limit of an answer, where it is more than the context window has room for."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.engine import text
from support.exchanges import Recorder, make_environment, run_answers
from support.items import call_output, function_call, user

from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialects import LLAMACPP, PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.errors import ContextLengthExceeded
from antiphon.wire.responses import CreateResponse


def request_with(**members: Any) -> CreateResponse:
    return msgspec.convert({"input": "Hi", "store": False, **members}, CreateResponse)


LONG = "word " * 4_000


def made(window: int | None, **members: Any) -> Exchange:
    known = EngineKnowledge(PLAIN, [Model("m", 0, "mock", window=window)])
    return Exchange(request_with(model="m", **members), [known], make_environment())


@pytest.mark.parametrize(
    ("window", "most", "text", "sent"),
    [
        (8_192, 1_000, "Hi", 1_000),
        (8_192, 8_000, "Hi", 8_000),
        # With the prompt it would be too much.
        (8_192, 8_000, LONG, UNSET),
        (8_192, 32_000, "Hi", UNSET),
        # A short answer is asked for as it is: nothing is counted.
        (8_192, 2_048, LONG * 2, 2_048),
        (None, 32_000, "Hi", 32_000),
    ],
)
def test_a_limit_that_the_window_has_no_room_for_is_left_out(window: int | None, most: int, text: str, sent: Any) -> None:
    exchange = made(window, max_output_tokens=most, input=text)
    assert exchange.chat.max_tokens == sent
    notice = f"the limit of {most} tokens was left out: with the prompt, it is more than the context window of {window} tokens"
    assert (notice in exchange.notices) == (sent is UNSET)


def test_it_is_left_out_under_the_name_that_the_engine_has_for_it() -> None:
    known = EngineKnowledge(LLAMACPP, [Model("m", 0, "mock", window=4_096)])
    exchange = Exchange(request_with(model="m", max_output_tokens=32_000), [known], make_environment())
    assert (exchange.chat.max_tokens, exchange.chat.max_completion_tokens) == (UNSET, UNSET)


# ---- a small model at the end of its window --------------------------------------------------------------------------

READ = [user("Read it."), function_call("c1", "exec_command", '{"cmd": "cat a"}'), call_output("c1", LONG)]
INPUT = [*READ, user("Go on."), *READ[1:]]
HELPED: dict[str, Any] = {"model": "tiny-1.5b", "tools": [APPLY_PATCH, EXEC_COMMAND], "input": INPUT}
CUT_OFF = {
    "in words": '{"name": "say", "arguments": {"text": "It has words',
    "in a call": '{"name": "shell", "arguments": {"command": "cat a; cat a',
    "in a name": '{"na',
    "at once": "",
}


@pytest.mark.parametrize("where", CUT_OFF)
def test_an_answer_that_the_window_cuts_off_ends_the_turn(where: str) -> None:
    asked = Recorder()
    events = run_answers(HELPED, text(CUT_OFF[where], finish="length"), dialect=LLAMACPP, help="full", on_ask=asked)
    response = events[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert len(asked.chats) == 1


def test_a_prompt_that_the_window_has_no_room_for_ends_the_turn() -> None:
    full = ContextLengthExceeded("the request exceeds the available context size")
    asked = Recorder()
    events = run_answers(HELPED, full, dialect=LLAMACPP, help="full", on_ask=asked)
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
    assert len(asked.chats) == 1
    # A quarter more is left out each time, but never the last turn.
    events = run_answers({**HELPED, "truncation": "auto"}, *[full] * 5, dialect=LLAMACPP, help="full")
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
