"""Observers: who looks on while a response runs. They see everything and change nothing."""

from collections.abc import Callable, Sequence

from antiphon.core.fast_path import AnyEvent
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse


class Observer:
    """One response. Override what you want to see. It is called on the event loop: it must be quick, and must not raise."""

    def request(self, response_id: str, request: CreateResponse) -> None:
        """The client's request."""

    def chat(self, chat: ChatRequest, engine: str) -> None:
        """A chat request that is sent to an engine, by its URL. One response may take several."""

    def events(self, events: Sequence[AnyEvent]) -> None:
        """Events, right before they are written; `core.fast_path.expand` gives the full form of each."""


class ChatsOnly(Observer):
    """Of a part of a response: the observer sees its chat requests, and the rest with the response itself."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._observer.chat(chat, engine)


# Called for each response; None: this one is not observed.
MakeObserver = Callable[[], Observer | None]
