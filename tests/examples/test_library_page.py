"""docs/library.md: every block of Python in it runs, in the order of the page, and it names every event."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import msgspec
from support.engine import answer, call, text
from support.exchanges import make_environment
from support.streams import check_stream, parse

from antiphon import AnyEvent, CreateResponse, EngineKnowledge, Exchange, Response, SseEncoder, events, run_exchange
from antiphon.core.knowledge import dialects

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


class Reader:
    """What the page leaves to its reader: an HTTP client, a server, a store."""

    body = b'{"model": "m", "input": "Hi", "stream": true}'

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.sent: list[bytes] = []
        self.saved: list[Response] = []
        self.printed = ""

    def names(self) -> dict[str, Any]:
        return {
            "body": self.body,
            "post": self.post,
            "send": self.sent.append,
            "save": self.saved.append,
            "print": self.print,
        }

    def post(self, body: bytes) -> tuple[int, list[bytes]]:
        self.posted.append(msgspec.json.decode(body))
        if len(self.posted) == 1:
            # A field that the engine does not know: the exchange asks again without it.
            return 400, [b'{"error": {"message": "Unrecognized request argument: stream_options"}}']
        return 200, text("Hello", " world").splitlines(keepends=True)

    def print(self, piece: str, end: str) -> None:
        self.printed += piece


def test_every_block_runs() -> None:
    reader = Reader()
    namespace = reader.names()
    loop, streamed, whole, printing, storing, continuing = BLOCKS
    exec(loop + streamed, namespace)
    check_stream(parse(b"".join(reader.sent)))
    assert [len(reader.posted), "stream_options" in reader.posted[0], "stream_options" in reader.posted[1]] == [2, True, False]
    exec(whole, namespace)
    assert msgspec.json.decode(reader.sent[-1])["status"] == "completed"
    exec(printing, namespace)
    assert reader.printed == "Hello world"
    exec(storing, namespace)
    assert [response.status for response in reader.saved] == ["completed"]
    exec(continuing, namespace)
    assert [message.role for message in namespace["exchange"].chat.messages] == ["user", "assistant", "user"]


def test_a_check_that_is_not_run_at_once_is_the_next_step() -> None:
    """The loop of the page does not look at `exchange.check`, and emits the same events as one that does."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    tool = {"type": "function", "name": "get_weather", "strict": True, "parameters": schema}
    calls = [call("get_weather", '{"city": "Paris"}', id=f"c{index}", index=index) for index in range(2)]
    pieces = answer(*calls, finish="tool_calls").splitlines(keepends=True)
    namespace: dict[str, Any] = {"post": lambda body: (200, pieces)}
    exec(BLOCKS[0], namespace)

    def encoded(run: Callable[[Exchange], Iterable[AnyEvent]]) -> bytes:
        request = CreateResponse(model="m", input="Hi", tools=[tool], stream=True)
        exchange = Exchange(request, [EngineKnowledge(dialects.PLAIN)], make_environment())
        return b"".join(map(SseEncoder().encode, run(exchange)))

    at_once = encoded(lambda exchange: run_exchange(exchange, lambda step: pieces))
    assert at_once.count(b"event: response.function_call_arguments.done") == 2
    assert encoded(namespace["respond"]) == at_once


def test_every_event_is_named() -> None:
    named = set(re.findall(r"`(response\.[a-z_.]+)`", PAGE))
    kinds = {kind for union in get_args(events.StreamEvent) for kind in (get_args(union) or (union,))}
    assert named == {kind.__struct_config__.tag for kind in kinds}
