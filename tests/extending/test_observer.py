"""An observer: it sees the client's request, each chat request, and every event."""

from collections.abc import Sequence

from support.engine import MockEngine, text
from support.gateway import running_gateway

from antiphon.app import Extensions
from antiphon.core.fast_path import AnyEvent, expand
from antiphon.gateway.observers import Observer
from antiphon.wire.chat import ChatRequest
from antiphon.wire.events import Event, OutputTextDelta
from antiphon.wire.responses import CreateResponse


class Notebook(Observer):
    """Writes everything down."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, CreateResponse]] = []
        self.chats: list[tuple[str, ChatRequest]] = []
        self.seen: list[Event] = []

    def request(self, response_id: str, request: CreateResponse) -> None:
        self.requests.append((response_id, request))

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self.chats.append((engine, chat))

    def events(self, events: Sequence[AnyEvent]) -> None:
        self.seen += map(expand, events)


async def test_an_observer_sees_the_request_the_chat_request_and_the_events(engine: MockEngine) -> None:
    engine.will(text("Hel", "lo"))
    notebook = Notebook()
    async with running_gateway(engine, extensions=Extensions(observers=[lambda: notebook])) as gateway:
        events = await gateway.stream("Hi", instructions="Be kind.")
    ((response_id, request),) = notebook.requests
    assert (response_id, request.instructions) == (events[-1]["response"]["id"], "Be kind.")
    ((url, chat),) = notebook.chats
    assert url == engine.url
    assert [message.content for message in chat.messages] == ["Be kind.", "Hi"]
    assert [event.sequence_number for event in notebook.seen] == [event["sequence_number"] for event in events]
    assert [event.delta for event in notebook.seen if isinstance(event, OutputTextDelta)] == ["Hel", "lo"]


async def test_it_sees_an_answer_that_is_not_streamed_as_events_too(engine: MockEngine) -> None:
    notebook = Notebook()
    async with running_gateway(engine, extensions=Extensions(observers=[lambda: None, lambda: notebook])) as gateway:
        await gateway.create("Hi")
    assert type(notebook.seen[-1]).__struct_config__.tag == "response.completed"
