"""The chat messages of a request while its items are being read.

Chat templates allow less than the Responses API: one leading system message, one assistant message per turn with its
reasoning, text and calls together, and the result of each call directly after it. The draft collects items into such turns.
Items that are appended to a history only append messages, so that the engine's prefix cache stays valid.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from antiphon.core.arguments import object_arguments
from antiphon.core.dialect import Dialect
from antiphon.core.tool_words import call_to_words, result_to_words
from antiphon.core.tools import Native
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatCall, ChatCallFunction, ChatMessage

Part = dict[str, Any]

NO_OUTPUT = "(no output was recorded for this call)"
IMAGE_FOLLOWS = "(the result is the image in the next message)"
GO_ON = "Go on."


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: str
    texts: list[str] = field(default_factory=list)
    media: list[Part] = field(default_factory=list)
    answered: bool = False

    def words(self) -> str:
        return call_to_words(self.name, object_arguments(self.arguments))

    def output(self) -> str:
        if self.texts:
            return "\n".join(self.texts)
        if self.media:
            return IMAGE_FOLLOWS
        return "" if self.answered else NO_OUTPUT


@dataclass(slots=True)
class AssistantTurn:
    reasoning: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def messages(self, dialect: Dialect) -> Iterator[ChatMessage]:
        texts = self.texts if dialect.shows_tools else [*self.texts, *(call.words() for call in self.calls)]
        message = ChatMessage(role="assistant", content="\n\n".join(texts))
        thought = "\n\n".join(self.reasoning)
        if thought and dialect.reasoning_member:
            setattr(message, dialect.reasoning_member, thought)
        elif thought:
            message.content = f"<think>\n{thought}\n</think>\n\n{message.content}"
        if self.calls and dialect.shows_tools:
            message.tool_calls = [
                ChatCall(call.id, ChatCallFunction(call.name, object_arguments(call.arguments))) for call in self.calls
            ]
        yield message
        if self.calls and not dialect.shows_tools:
            yield ChatMessage(role="user", content="\n".join(result_to_words(call.output()) for call in self.calls))
        for call in self.calls if dialect.shows_tools else ():
            yield ChatMessage(role="tool", tool_call_id=call.id, content=call.output())
        if media := [part for call in self.calls for part in call.media]:
            yield ChatMessage(role="user", content=media)


@dataclass(slots=True)
class UserTurn:
    parts: list[Part]

    def messages(self, dialect: Dialect) -> Iterable[ChatMessage]:
        return (ChatMessage(role="user", content=parts_to_content(self.parts)),)


def parts_to_content(parts: list[Part]) -> str | list[Part]:
    """A plain string if there is only text: every template accepts it."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


class ChatDraft:
    def __init__(self, name_of: Callable[[Native], str], open_sealed: Callable[[str], str | None]) -> None:
        # The name of each tool as the engine knows it, and the content of a sealed text.
        self.name_of = name_of
        self.open_sealed = open_sealed
        self.notices: list[str] = []
        self._system: list[str] = []
        self._turns: list[AssistantTurn | UserTurn] = []
        self._calls: dict[str, list[Call]] = {}

    # ---- input -------------------------------------------------------------------------------------------------------

    def system(self, text: str) -> None:
        """Instructions go into the leading system message. After the first assistant turn it is fixed, and later instructions
        become user messages at their position: templates reject or drop a late system message, and a changed first message
        would invalidate the whole prefix cache."""
        if not text:
            return
        if any(isinstance(turn, AssistantTurn) for turn in self._turns):
            self.user([{"type": "text", "text": f"<system_message>\n{text}\n</system_message>"}])
        else:
            self._system.append(text)

    @property
    def has_instructions(self) -> bool:
        return bool(self._system)

    def user(self, parts: list[Part]) -> None:
        self._turns.append(UserTurn(parts or [{"type": "text", "text": ""}]))

    def reasoning(self, text: str) -> None:
        if text:
            self._assistant().reasoning.append(text)

    def assistant(self, text: str) -> None:
        turn = self._assistant()
        if text:
            turn.texts.append(text)

    def call(self, call_id: str, name: str, arguments: str) -> None:
        call = Call(call_id, name, arguments)
        self._assistant().calls.append(call)
        self._calls.setdefault(call_id, []).append(call)

    def output(self, call_id: str, parts: list[Part], where: str) -> None:
        """The result of a call goes directly after it, wherever the item was. Ids may repeat from turn to turn: the oldest
        call without a result is meant."""
        calls = self._calls.get(call_id)
        if not calls:
            raise InvalidRequest(f"No tool call found for the output with call_id {call_id!r}.", param=f"{where}.call_id")
        call = next((call for call in calls if not call.answered), calls[-1])
        call.answered = True
        call.texts += [part["text"] for part in parts if part["type"] == "text"]
        call.media += [part for part in parts if part["type"] != "text"]

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def _assistant(self) -> AssistantTurn:
        last = self._turns[-1] if self._turns else None
        # After a call with a result the model was asked again: that is a new turn.
        if not isinstance(last, AssistantTurn) or any(call.answered for call in last.calls):
            last = AssistantTurn()
            self._turns.append(last)
        return last

    # ---- output ------------------------------------------------------------------------------------------------------

    def messages(self, dialect: Dialect, *, head: str, tail: list[str]) -> list[ChatMessage]:
        """`head` is the request's `instructions`; `tail` is what Antiphon adds to them."""
        for call in (call for calls in self._calls.values() for call in calls):
            if not call.answered:
                self.notice(f"call {call.id} has no output: a placeholder was sent")
        messages = [message for turn in self._turns for message in turn.messages(dialect)]
        if not dialect.takes_users_in_a_row:
            messages = _with_users_joined(messages)
        system = "\n\n".join(text for text in (head, *self._system, *tail) if text)
        if system and dialect.takes_system_role:
            messages.insert(0, ChatMessage(role="system", content=system))
        elif system:
            _fold_into_first_user(messages, system)
        if not messages:
            raise InvalidRequest("`input` is empty: there is nothing to respond to.", param="input")
        if messages[-1].role == "assistant" and dialect.continues_last_message:
            messages.append(ChatMessage(role="user", content=GO_ON))
        return messages


def _with_users_joined(messages: list[ChatMessage]) -> list[ChatMessage]:
    joined: list[ChatMessage] = []
    for message in messages:
        if joined and joined[-1].role == message.role == "user":
            parts = _to_parts(joined[-1]) + _to_parts(message)
            joined[-1] = ChatMessage(role="user", content=parts_to_content(parts))
        else:
            joined.append(message)
    return joined


def _to_parts(message: ChatMessage) -> list[Part]:
    content = message.content
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _fold_into_first_user(messages: list[ChatMessage], system: str) -> None:
    if not messages or messages[0].role != "user":
        messages.insert(0, ChatMessage(role="user", content=system))
        return
    first = messages[0]
    if isinstance(first.content, list):
        first.content = [{"type": "text", "text": system}, *first.content]
    else:
        first.content = f"{system}\n\n{first.content}"
