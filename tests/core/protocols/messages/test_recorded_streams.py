"""Recorded engine streams as messages: the same whether they are streamed or whole."""

import re
from pathlib import Path

import msgspec
import pytest
from golden.test_streams import IDS, RECORDED
from support.exchanges import make_environment
from support.messages import check_events, fold, parse
from support.sync_runs import run_exchange

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS
from antiphon.wire import events
from antiphon.wire.responses import CreateResponse, Response

WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def read(**members: object) -> ReadRequest:
    body = {"model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "Hi"}], **members}
    return MESSAGES.read(msgspec.json.encode(body), {}, DEFAULT_LIMITS)


def run(path: Path, request: CreateResponse) -> list[AnyEvent]:
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment(), response_id="resp_1", may_ask_again=False)
    return list(run_exchange(exchange, lambda step: [path.read_bytes()]))


def last_response(made: list[AnyEvent]) -> Response:
    last = made[-1]
    assert isinstance(last, events.ResponseCompleted | events.ResponseIncomplete | events.ResponseFailed)
    return last.response


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
@pytest.mark.parametrize("thinking", ["adaptive", "disabled"])
def test_a_stream_adds_up_to_the_whole_message(path: Path, thinking: str) -> None:
    asked = read(thinking={"type": thinking}, tools=[WEATHER])
    made = run(path, asked.request)
    encoder = MESSAGES.encoder(asked.request, asked.facts)
    streamed = parse(b"".join(encoder.encode(event) for event in made))
    check_events(streamed)
    response = last_response(made)
    if response.status == "failed":
        assert streamed[-1]["type"] == "error"
        return
    whole = msgspec.json.decode(MESSAGES.whole(response, asked.request, asked.facts))
    assert fold(streamed) == whole
    assert (thinking == "adaptive") or all(block["type"] != "thinking" for block in whole["content"])


def test_some_recordings_think_and_some_call() -> None:
    kinds: set[str] = set()
    for path in RECORDED:
        asked = read(thinking={"type": "adaptive"}, tools=[WEATHER])
        response = last_response(run(path, asked.request))
        whole = msgspec.json.decode(MESSAGES.whole(response, asked.request, asked.facts))
        kinds.update(block["type"] for block in whole["content"])
    assert kinds == {"text", "thinking", "tool_use"}


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
def test_no_text_has_a_tag_of_a_call_or_of_a_thought(path: Path) -> None:
    asked = read(thinking={"type": "adaptive"}, tools=[WEATHER])
    response = last_response(run(path, asked.request))
    whole = msgspec.json.decode(MESSAGES.whole(response, asked.request, asked.facts))
    texts = [block["text"] for block in whole["content"] if block["type"] == "text"]
    assert not [text for text in texts if re.search(r"</?(tool_call|think)>", text)]
