"""The chat messages of a request while its items are being read.

Chat templates allow less than the Responses API: one leading system message, one assistant message per turn with its
reasoning, text and calls together, and the result of each call directly after it. The draft collects items into such turns.
Items that are appended to a history only append messages, so that the engine's prefix cache stays valid.

Clients that continue a stored response differ in what they send beside the outputs of its calls. Some repeat the calls, some
the user's message. What was stored and is repeated counts once; and whatever comes between a call and its output, the prompt
ends with the output, as the items do. A model that sees the user's question last calls the same tool again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.core.arguments import object_arguments
from antiphon.core.dialect import Dialect
from antiphon.core.documents import ReadDocument
from antiphon.core.tool_words import call_to_words, result_to_words
from antiphon.core.tools import Native
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatCall, ChatCallFunction, ChatMessage

Part = dict[str, Any]

NO_OUTPUT = "(no output was recorded for this call)"
IMAGE_FOLLOWS = "(the result is the image in the next message)"
GO_ON = "Go on."
SAID_AGAIN = "a text of the assistant was sent again before the output of its calls: it counts once"
ASKED_AGAIN = "a user message between a call and its output was left out: it is empty, or was sent before"


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: str
    texts: list[str] = field(default_factory=list)
    media: list[Part] = field(default_factory=list)
    answered: bool = False

    def __post_init__(self) -> None:
        self.arguments = object_arguments(self.arguments)

    def repeats(self, other: "Call") -> bool:
        """The same call sent again. Engines may give parallel calls one id, so the id alone does not tell; and clients may
        write the same arguments in another way."""
        return (self.id, self.name) == (other.id, other.name) and (
            self.arguments == other.arguments or msgspec.json.decode(self.arguments) == msgspec.json.decode(other.arguments)
        )

    def words(self) -> str:
        return call_to_words(self.name, self.arguments)

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
    # The calls without an output, by their ids. The ids of parallel calls may be alike.
    waiting: dict[str, deque[Call]] = field(default_factory=dict)
    # One of its calls has an output.
    answered: bool = False

    def add(self, call: Call) -> None:
        self.calls.append(call)
        self.waiting.setdefault(call.id, deque()).append(call)

    def answer(self, call_id: str) -> Call:
        """The first call with this id that waits for its output. From now on it does not."""
        waiting = self.waiting[call_id]
        call = waiting.popleft()
        if not waiting:
            del self.waiting[call_id]
        self.answered = True
        return call

    def messages(self, dialect: Dialect) -> Iterator[ChatMessage]:
        texts = self.texts if dialect.shows_tools else [*self.texts, *(call.words() for call in self.calls)]
        message = ChatMessage(role="assistant", content="\n\n".join(texts))
        thought = "\n\n".join(self.reasoning)
        if thought and dialect.reasoning_member:
            setattr(message, dialect.reasoning_member, thought)
        elif thought:
            message.content = f"<think>\n{thought}\n</think>\n\n{message.content}"
        if self.calls and dialect.shows_tools:
            message.tool_calls = [ChatCall(call.id, ChatCallFunction(call.name, call.arguments)) for call in self.calls]
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


# Clients that must send a message beside the outputs of calls send an empty one.
SAYS_NOTHING = UserTurn([{"type": "text", "text": ""}])


class ChatDraft:
    def __init__(
        self, name_of: Callable[[Native], str], open_sealed: Callable[[str], str | None], read_document: ReadDocument
    ) -> None:
        # The name of each tool as the engine knows it, the content of a sealed text, and the text of a document.
        self.name_of = name_of
        self.open_sealed = open_sealed
        self.read_document = read_document
        self.notices: list[str] = []
        self._system: list[str] = []
        self._turns: list[AssistantTurn | UserTurn] = []
        # How many user messages follow the latest assistant turn.
        self._users_at_end = 0
        self._calls: dict[str, list[tuple[AssistantTurn, Call]]] = {}

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
        self._turns.append(UserTurn(parts) if parts else SAYS_NOTHING)
        self._users_at_end += 1

    def reasoning(self, text: str) -> None:
        if text:
            self._say(self._assistant().reasoning, text)

    def assistant(self, text: str) -> None:
        texts = self._assistant().texts
        if text:
            self._say(texts, text)

    def _say(self, said: list[str], text: str) -> None:
        if text in said and self._assistant().calls:
            self.notice(SAID_AGAIN)
        else:
            said.append(text)

    def call(self, call_id: str, name: str, arguments: str) -> None:
        call = Call(call_id, name, arguments)
        if call.arguments != arguments and arguments.strip():
            self.notice(f"call {call_id}: its arguments are not a JSON object, and were sent as part of one")
        if self._is_repeated(call):
            self.notice(f"call {call_id} was sent again before its output: it counts once")
            return
        turn = self._assistant()
        turn.add(call)
        self._calls.setdefault(call_id, []).append((turn, call))

    def _is_repeated(self, call: Call) -> bool:
        """The call waits for its output in the latest assistant turn. It stays there, because calls that were made together
        stay together."""
        turn = self._latest_turn
        return turn is not None and any(call.repeats(other) for other in turn.waiting.get(call.id, ()))

    def output(self, call_id: str, parts: list[Part], where: str) -> None:
        """The result of a call goes directly after it, wherever the item was."""
        if call_id not in self._calls:
            problem = f"No tool call found for the output with call_id {call_id!r}."
            raise InvalidRequest(problem, param=f"{where}.call_id", code="tool_call_not_found")
        call = self._answered(call_id)
        call.answered = True
        call.texts += [part["text"] for part in parts if part["type"] == "text"]
        call.media += [part for part in parts if part["type"] != "text"]

    def _answered(self, call_id: str) -> Call:
        """Ids may repeat from turn to turn: the latest turn that waits for this output is meant."""
        calls = self._calls[call_id]
        turn, call = calls[-1]
        if call_id not in turn.waiting and len(calls) > 1:
            turn, call = next(((turn, call) for turn, call in reversed(calls) if call_id in turn.waiting), calls[-1])
        if call_id not in turn.waiting:
            return call
        if turn is self._latest_turn:
            self._move_users_before(len(self._turns) - 1 - self._users_at_end)
        return turn.answer(call_id)

    @property
    def _latest_turn(self) -> AssistantTurn | None:
        at = len(self._turns) - 1 - self._users_at_end
        turn = self._turns[at] if at >= 0 else None
        return turn if isinstance(turn, AssistantTurn) else None

    def _move_users_before(self, at: int) -> None:
        """User messages between a call and its output go before the turn of the call: a result has to follow its call, and the
        prompt has to end with it. The messages before that turn stay a prefix. The turn itself was not sent before, unless
        with a placeholder, which has to go in any case.
        """
        turn, *between = self._turns[at:]
        if not between:
            return
        asked = self._users_before(at)
        new = [each for each in between if each not in asked and each != SAYS_NOTHING]
        if len(new) < len(between):
            self.notice(ASKED_AGAIN)
        self._turns[at:] = [*new, turn]
        self._users_at_end = 0

    def _users_before(self, at: int) -> list[AssistantTurn | UserTurn]:
        """The latest user messages before this turn."""
        ends = at
        while ends and not isinstance(self._turns[ends - 1], UserTurn):
            ends -= 1
        starts = ends
        while starts and isinstance(self._turns[starts - 1], UserTurn):
            starts -= 1
        return self._turns[starts:ends]

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def _assistant(self) -> AssistantTurn:
        last = self._turns[-1] if self._turns else None
        # After a call with a result the model was asked again: that is a new turn.
        if not isinstance(last, AssistantTurn) or last.answered:
            last = AssistantTurn()
            self._turns.append(last)
            self._users_at_end = 0
        return last

    # ---- output ------------------------------------------------------------------------------------------------------

    def messages(self, dialect: Dialect, *, head: str, tail: list[str]) -> list[ChatMessage]:
        """`head` is the request's `instructions`; `tail` is what Antiphon adds to them."""
        for call in (call for calls in self._calls.values() for _, call in calls):
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
            raise InvalidRequest(
                "`input` is empty: there is nothing to respond to.", param="input", code="missing_required_parameter"
            )
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
