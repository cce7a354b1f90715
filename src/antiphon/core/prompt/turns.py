"""The turns of a chat: what the model said and called, with the results, and what the user said; also those that follow the
items of a request while its response goes on."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

import msgspec
from msgspec import Struct

from antiphon.core.items.calls import CallState
from antiphon.core.items.enforcement import Rejection
from antiphon.core.items.item_state import ItemState
from antiphon.core.items.reasoning import ReasoningState
from antiphon.core.toolbox.easier_tools.commands import plain_result
from antiphon.core.toolbox.prompt_texts import (
    ANSWER_AGAIN,
    BAD_ANSWER,
    BAD_CALL,
    CALL_AGAIN,
    CALL_ANOTHER,
    CALL_INSTEAD,
    DO_NEXT,
    IMAGE_FOLLOWS,
    NOT_RECORDED,
    must_call,
    one_of,
)
from antiphon.core.toolbox.requirements import Requirements
from antiphon.partial_json import canonical_arguments, object_arguments
from antiphon.wire.chat import ChatCall, ChatCallFunction, ChatMessage, Part


class Call(Struct):
    id: str
    name: str
    arguments: str
    texts: list[str] = []
    media: list[Part] = []
    answered: bool = False
    # What Antiphon adds to the output, as its last line.
    note: str = ""
    # Its item says that it failed.
    failed: bool = False
    # Its result is shown in plain words, which may name these functions.
    easy: Collection[str] = ()

    def __post_init__(self) -> None:
        self.arguments = object_arguments(self.arguments)

    def shown_output(self) -> str:
        output = self.texts[0] if len(self.texts) == 1 else self.output()
        if self.easy:
            output = plain_result(output, self.easy)
        return "\n".join(filter(None, (output.rstrip("\n"), self.note))) if self.note else output

    def output(self) -> str:
        if len(self.texts) == 1:
            return self.texts[0]
        if self.texts:
            return "\n".join(self.texts)
        if self.media:
            return IMAGE_FOLLOWS
        return "" if self.answered else NOT_RECORDED


class WaitingCalls:
    """Several calls with one id that have no output yet, the oldest first. Engines may give parallel calls one id."""

    __slots__ = ("_actions", "_calls", "_next")

    def __init__(self, *calls: Call) -> None:
        self._calls = list(calls)
        # The oldest one that has none.
        self._next = 0
        # What each call does. Made when it is first asked for.
        self._actions: set[Hashable] | None = None

    def add(self, call: Call) -> None:
        self._calls.append(call)
        if self._actions is not None:
            self._actions.add(_action(call))

    def pop(self) -> Call:
        call = self._calls[self._next]
        self._next += 1
        if self._actions is not None:
            self._actions.discard(_action(call))
        return call

    def __bool__(self) -> bool:
        return self._next < len(self._calls)

    def __contains__(self, call: Call) -> bool:
        """The same call. The id alone does not say so, and clients may write the same arguments in another way."""
        if self._actions is None:
            self._actions = set(map(_action, self._calls[self._next :]))
        return _action(call) in self._actions


def _action(call: Call) -> Hashable:
    return call.name, canonical_arguments(call.arguments)


class AssistantTurn(Struct):
    reasoning: list[str] = []
    texts: list[str] = []
    calls: list[Call] = []
    # The calls without an output, by their ids. Most ids are unique.
    waiting: dict[str, Call | WaitingCalls] = {}
    # One of its calls has an output.
    answered: bool = False
    # Its texts, each with whether it is a thought. Made when one follows a call: most turns end with their calls.
    _said: set[tuple[bool, str]] | None = None

    def add_text(self, text: str, *, thought: bool = False) -> bool:
        """False: it was said before the calls already, and is repeated after them."""
        if self.calls:
            if self._said is None:
                self._said = {(True, each) for each in self.reasoning} | {(False, each) for each in self.texts}
            if (thought, text) in self._said:
                return False
            self._said.add((thought, text))
        (self.reasoning if thought else self.texts).append(text)
        return True

    def add(self, call: Call) -> None:
        self.calls.append(call)
        if (same_id := self.waiting.get(call.id)) is None:
            self.waiting[call.id] = call
        elif isinstance(same_id, Call):
            self.waiting[call.id] = WaitingCalls(same_id, call)
        else:
            same_id.add(call)

    def waits_for(self, call: Call) -> bool:
        """It has this very call, without an output."""
        same_id = self.waiting.get(call.id)
        if same_id is None:
            return False
        return call in (WaitingCalls(same_id) if isinstance(same_id, Call) else same_id)

    def answer(self, call_id: str) -> Call:
        """The first call with this id that waits for its output. From now on it does not."""
        self.answered = True
        waiting = self.waiting[call_id]
        if isinstance(waiting, Call):
            del self.waiting[call_id]
            return waiting
        call = waiting.pop()
        if not waiting:
            del self.waiting[call_id]
        return call

    def drop_replaced(self) -> list[Call]:
        """The calls that were sent again with other arguments. There is one output for both, so they are one call, and the
        arguments that came last count."""
        if len(self.calls) < 2:
            return []
        alike: dict[tuple[str, str], list[Call]] = {}
        for call in self.calls:
            alike.setdefault((call.id, call.name), []).append(call)
        replaced = []
        for first, *later in alike.values():
            if len(later) == 1 and first.answered and not later[0].answered:
                first.arguments = later[0].arguments
                replaced += later
        if replaced:
            gone = {id(call) for call in replaced}
            self.calls = [call for call in self.calls if id(call) not in gone]
        return replaced

    def extend(self, turn: "AssistantTurn") -> None:
        """The model goes on, and nobody else has said anything."""
        self.reasoning += turn.reasoning
        self.texts += turn.texts
        self.calls += turn.calls

    def messages(self) -> list[ChatMessage]:
        message = ChatMessage("assistant", "\n\n".join(self.texts))
        if thought := "\n\n".join(self.reasoning):
            message.reasoning_content = thought
        messages = [message]
        if self.calls:
            message.tool_calls = calls = []
            media: list[Part] = []
            ids = self._own_ids() if len(self.calls) > 1 else (self.calls[0].id,)
            for id, call in zip(ids, self.calls, strict=True):
                calls.append(ChatCall(id, ChatCallFunction(call.name, call.arguments)))
                messages.append(ChatMessage("tool", call.shown_output(), tool_call_id=id))
                media += call.media
            if media:
                messages.append(ChatMessage("user", media))
        return messages

    def _own_ids(self) -> list[str]:
        """Each call has its own: the same code may run twice, and engines may give parallel calls one id."""
        ids = [call.id for call in self.calls]
        if len(set(ids)) == len(ids):
            return ids
        count: Counter[str] = Counter()
        for at, id in enumerate(ids):
            count[id] += 1
            ids[at] = id if count[id] == 1 else f"{id}_{count[id]}"
        return ids


class UserTurn(Struct):
    parts: list[Part]

    def key(self) -> bytes:
        """The same for messages that say the same."""
        return msgspec.json.encode(self.parts)

    def messages(self) -> Iterable[ChatMessage]:
        parts = self.parts
        is_text = len(parts) == 1 and parts[0]["type"] == "text"
        return (ChatMessage("user", parts[0]["text"] if is_text else parts_to_content(parts)),)


class Asked:
    """The user messages before an assistant turn. Their keys are made when one is looked up: most requests repeat nothing."""

    __slots__ = ("_keys", "_unread")

    def __init__(self, turns: list[AssistantTurn | UserTurn]) -> None:
        """`turns`: a list of its own."""
        self._unread = turns
        # Most conversations never need them, and have one of these for each turn.
        self._keys: set[bytes] | None = None

    def add(self, turns: Iterable[AssistantTurn | UserTurn]) -> None:
        self._unread += turns

    def __contains__(self, turn: UserTurn) -> bool:
        if self._keys is None:
            self._keys = set()
        if self._unread:
            self._keys.update(each.key() for each in self._unread if isinstance(each, UserTurn))
            self._unread = []
        return turn.key() in self._keys


def parts_to_content(parts: list[Part]) -> str | list[Part]:
    """A plain string if there is only text: every template accepts it."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def states_to_turn(states: Iterable[ItemState]) -> AssistantTurn:
    """A round of tools that the gateway ran, as the requests that continue the response will show it."""
    turn = AssistantTurn()
    for state in states:
        if isinstance(state, CallState):
            output = state.result.output if state.result is not None else ""
            failed = state.result is not None and state.result.failed
            turn.calls.append(
                Call(state.chat_id, state.chat_name, state.arguments, texts=[output], answered=True, failed=failed)
            )
        elif isinstance(state, ReasoningState):
            turn.reasoning.append(state.written)
        elif text := state.written:
            turn.texts.append(text)
    return turn


def rejection_to_turns(
    rejection: Rejection, requirements: Requirements, *, helped: bool = False
) -> list[AssistantTurn | UserTurn]:
    """The answer that was rejected, and the complaint about it. `helped`: a small model would repeat either of them, so it is
    asked as before, with one sentence more."""
    if helped:
        return [_user(_words_again(rejection, requirements))]
    call = rejection.call
    if call is not None:
        complaint = BAD_CALL.format(complaint=rejection.complaint)
        return [AssistantTurn(calls=[Call(call.call_id, call.name, call.arguments, texts=[complaint], answered=True)])]
    said = [AssistantTurn(texts=[rejection.words])] if rejection.words else []
    if requirements.must_call:
        words = must_call(sorted(requirements.only or ()))
    else:
        words = BAD_ANSWER.format(complaint=rejection.complaint)
    return [*said, _user(words)]


def _words_again(rejection: Rejection, requirements: Requirements) -> str:
    call, complaint = rejection.call, rejection.complaint
    if call is None and requirements.must_call:
        return must_call(sorted(requirements.only or ()))
    if call is None:
        return ANSWER_AGAIN.format(complaint=complaint)
    offered = requirements.offered_as(call.name, call.arguments)
    if requirements.is_made(call.name, call.arguments):
        return DO_NEXT.format(name=call.name)
    if not offered:
        return CALL_ANOTHER.format(name=_shown_name(call, requirements), complaint=complaint)
    if call.name in offered:
        return CALL_AGAIN.format(name=call.name, complaint=complaint)
    return CALL_INSTEAD.format(names=one_of(offered), complaint=complaint)


def _shown_name(call: CallState, requirements: Requirements) -> str:
    """The name by which the model knows what it may not call."""
    is_known = call.name in requirements.withheld or not requirements.withheld
    return call.name if is_known else requirements.tools.box.name_in_history(call.name, call.arguments)


def _user(words: str) -> UserTurn:
    return UserTurn([{"type": "text", "text": words}])
