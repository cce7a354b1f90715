"""JSON in pieces is the same JSON, and no piece of it is long."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.events.encode import event_to_frame, long_frame
from antiphon.core.events.json_pieces import LONG_TEXT, PIECE, JsonPieces, is_one_short_text, long_json
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import (
    ApplyPatchCall,
    CustomToolCall,
    FunctionCall,
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Response,
    SummaryText,
)

# Escapes and characters of every width, also where two pieces meet. The first is what a mark could be confused with.
TRICKY = '\x00"\\\n\u0000mark é漢😀\u2028'
LONG = TRICKY * (LONG_TEXT // len(TRICKY) * 3)
PLACE: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}


def message(*texts: str) -> OutputMessage:
    return OutputMessage(id="msg_1", status="completed", content=[OutputText(text=text) for text in texts])


def response(*output: Any) -> Response:
    return Response(id="resp_1", created_at=0, model="m", output=list(output), output_text=LONG, instructions=TRICKY)


EVENTS: dict[str, Event] = {
    "text": events.OutputTextDone(**PLACE, text=LONG),
    "part": events.ContentPartDone(**PLACE, part=OutputText(text=LONG)),
    "item": events.OutputItemDone(output_index=0, item=message(LONG, TRICKY, LONG)),
    "refusal": events.OutputItemDone(
        output_index=0, item=OutputMessage(id="m", status="completed", content=[OutputRefusal(LONG)])
    ),
    "call": events.OutputItemDone(
        output_index=0, item=FunctionCall(id="f", call_id="c", name="n", arguments=LONG, status="completed")
    ),
    "custom call": events.OutputItemDone(
        output_index=0, item=CustomToolCall(id="f", call_id="c", name="n", input=LONG, status="completed")
    ),
    "patch": events.OutputItemDone(
        output_index=0,
        item=ApplyPatchCall(
            id="p", call_id="c", operation={"type": "create_file", "path": "a", "diff": LONG}, status="completed"
        ),
    ),
    "arguments": events.FunctionCallArgumentsDone(item_id="f", output_index=0, name="n", arguments=LONG),
    "reasoning": events.OutputItemDone(
        output_index=0,
        item=ReasoningItem(
            id="r", status="completed", summary=[SummaryText(LONG)], content=[ReasoningText(LONG)], encrypted_content=LONG
        ),
    ),
    "response": events.ResponseCompleted(response=response(message(TRICKY, LONG), message(LONG))),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_in_pieces_is_the_event(name: str) -> None:
    event = EVENTS[name]
    pieces = long_frame(event)
    assert pieces is not None
    whole = event_to_frame(event)
    assert b"".join(pieces) == whole
    # A write may have to be repeated.
    assert b"".join(pieces) == whole
    assert len(pieces) == len(whole)


@pytest.mark.parametrize("name", EVENTS)
def test_no_piece_is_long(name: str) -> None:
    pieces = long_frame(EVENTS[name])
    assert pieces is not None
    # Six bytes are the longest escape of a character.
    assert max(map(len, pieces)) <= 6 * PIECE


def test_what_has_no_long_text_is_not_cut() -> None:
    assert long_frame(events.OutputTextDone(**PLACE, text="x" * (LONG_TEXT - 1))) is None
    assert long_json([message(TRICKY)]) is None
    assert long_json({"any": "thing"}) is None


def test_an_outline_has_all_but_the_long_texts() -> None:
    pieces = long_json(
        [message("short", LONG), FunctionCall(id="f", call_id="c", name="n", arguments=LONG, status="completed")]
    )
    assert pieces is not None
    first, second = msgspec.json.decode(pieces.outline)
    assert [part["text"] for part in first["content"]] == ["short", "..."]
    assert (second["id"], second["arguments"]) == ("f", "...")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), st.integers(0, 40))
def test_any_text_is_escaped_as_one(text: str, shift: int) -> None:
    """Wherever it is cut."""
    long = "x" * shift + text * (PIECE // len(text) + 2)
    pieces = long_json([long])
    assert isinstance(pieces, JsonPieces)
    assert b"".join(pieces) == msgspec.json.encode([long])


def test_one_short_text_is_what_has_no_long_text() -> None:
    short = response(message(TRICKY))
    assert is_one_short_text(short)
    assert is_one_short_text(response(OutputMessage(id="m", status="completed", content=[OutputRefusal(TRICKY)])))
    assert not is_one_short_text(response(message(LONG)))
    assert not is_one_short_text(response(OutputMessage(id="m", status="completed", content=[OutputRefusal(LONG)])))
    # Where there is more than one text, each of them may be long.
    assert not is_one_short_text(response(message(TRICKY, TRICKY)))
    assert not is_one_short_text(response(message(TRICKY), message(TRICKY)))
    assert not is_one_short_text(response())
    assert not is_one_short_text(msgspec.structs.replace(short, instructions=LONG))
