"""Chat completions for the tests: requests that are read and run without a gateway, and chunks joined to what they say."""

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from antiphon.core.events.plain_deltas import AnyEvent, expand
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.chat.protocol import CHAT
from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS
from support.sync_runs import run_exchange

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
USER = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}


def read(**fields: Any) -> ReadRequest:
    body = {"model": "mock", "messages": [USER], **fields}
    return CHAT.read(msgspec.json.encode(body), {}, DEFAULT_LIMITS)


def run(pieces: Iterable[bytes], dialect: Dialect = PLAIN, **fields: Any) -> tuple[bytes, dict[str, Any]]:
    """The stream and the whole answer to a request whose engine gives this answer."""
    request, numbers = read(**{"tools": [WEATHER], "stream": True, **fields}).request, itertools.count(1)
    environment = Environment(new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 1).plain()
    exchange = Exchange(request, [EngineKnowledge(dialect)], environment, response_id="resp_1", may_ask_again=False)
    encoder = CHAT.encoder(request)
    events: list[AnyEvent] = list(run_exchange(exchange, lambda step: pieces))
    stream = b"".join((*map(encoder.encode, events), *encoder.end))
    # A delta in its compact form is written as in its full one.
    again = CHAT.encoder(request)
    assert b"".join((*(again.encode(expand(event)) for event in events), *again.end)) == stream
    check_chunks(chunks_of(stream))
    return stream, msgspec.json.decode(CHAT.whole(exchange.response, request))


def chunks_of(stream: bytes) -> list[dict[str, Any]]:
    """Of a stream that ends as it should."""
    *frames, last, rest = stream.split(b"\n\n")
    assert (last, rest) == (b"data: [DONE]", b"")
    shown = [frame for frame in frames if not frame.startswith(b":")]
    assert all(frame.startswith(b"data: ") for frame in shown)
    return [msgspec.json.decode(frame.removeprefix(b"data: ")) for frame in shown]


def check_chunks(chunks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What always holds of a stream: one completion, whose role comes first, and which ends once, after all else, or with an
    error, which is returned."""
    failed = chunks[-1].get("error")
    chunks = chunks[:-1] if failed else chunks
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) <= 1
    shown = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert ["role" in choice["delta"] for choice in shown] == [at == 0 for at in range(len(shown))]
    ends = [choice for choice in shown if choice["finish_reason"] is not None]
    assert ends == ([] if failed else shown[-1:])
    assert all(choice["delta"] == {} for choice in ends)
    assert all(chunk is chunks[-1] and chunk["choices"] == [] for chunk in chunks if chunk.get("usage"))
    return failed


def deltas_of(chunks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def joined(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of the deltas: the message, with what has not come left out."""
    message: dict[str, Any] = {}
    for delta in deltas_of(chunks):
        for name, value in delta.items():
            if name == "tool_calls":
                _join_calls(message.setdefault("tool_calls", []), value)
            elif isinstance(value, list):
                message.setdefault(name, []).extend(value)
            elif value is not None:
                message[name] = message.get(name, "") + value
    return message


def _join_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        if piece["index"] == len(calls):
            calls.append(msgspec.json.decode(msgspec.json.encode({k: v for k, v in piece.items() if k != "index"})))
            continue
        call = calls[piece["index"]]
        kind, member = ("custom", "input") if "custom" in piece else ("function", "arguments")
        call[kind][member] = call[kind].get(member, "") + piece[kind][member]


def finish_of(chunks: Iterable[dict[str, Any]]) -> list[str]:
    found = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk.get("choices")]
    return [reason for reason in found if reason is not None]
