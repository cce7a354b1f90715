"""The chat messages of a request while its items are being read.

Chat templates allow less than the Responses API: one leading system message, one assistant message per turn with its
reasoning, text and calls together, and the result of each call directly after it. The draft collects items into such turns.
Items that are appended to a history only append messages, so that the engine's prefix cache stays valid. What the template of
one model demands beyond that is in `core/prompt/template_rules.py`.

Clients that continue a stored response differ in what they send beside the outputs of its calls. Some repeat the calls, some
the user's message. What was stored and is repeated counts once; and whatever comes between a call and its output, the prompt
ends with the output, as the items do. A model that sees the user's question last calls the same tool again.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import Struct, structs

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.loops import NO_LOOPS, NOTED, Loops, changes_nothing, find_loops
from antiphon.core.prompt.template_rules import apply_template_rules
from antiphon.core.prompt.turns import Asked, AssistantTurn, Call, UserTurn
from antiphon.core.toolbox.tools import AsCalled, ToolIdentity
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.chat import ChatMessage, Part
from antiphon.wire.input_items import Item

SAID_AGAIN = "a text of the assistant was sent again before the output of its calls: it counts once"
ASKED_AGAIN = "a user message between a call and its output was left out: it is empty, or was sent before"


# Clients that must send a message beside the outputs of calls send an empty one.
SAYS_NOTHING = UserTurn([{"type": "text", "text": ""}])


class ChatDraft(Struct, eq=False):
    # A call as the model makes it, the content of a sealed text, and the texts of documents.
    _as_called: Callable[[ToolIdentity, str], AsCalled]
    open_sealed: Callable[[str], str | None]
    documents: Documents
    # What the model reads of tools that a search has found.
    found_words: Callable[[list[Item]], str]
    # The searches of the gateway: how many there are, and the ids of those whose outputs are still to come.
    _searches: int = 0
    _searching: list[str] = []
    # A set that keeps its order.
    notices: dict[str, None] = {}
    _system: list[str] = []
    _turns: list[AssistantTurn | UserTurn] = []
    # The item that is being read was written beside the one before it, whatever results that one has.
    joins_answer: bool = False
    # The latest assistant turn. None: the model has written nothing yet.
    _latest: AssistantTurn | None = None
    # How many user messages follow the latest assistant turn; and the latest ones before it.
    _users_at_end: int = 0
    _asked: Asked | None = None
    # By their ids: the latest call, and the turns whose calls may wait for their outputs, the latest one last.
    _calls: dict[str, Call] = {}
    # Those that were read, by their ids.
    approval_requests: dict[str, dict[str, Any]] = {}
    _waiting: dict[str, list[AssistantTurn]] = {}
    # What a small model is shown before the conversation.
    examples: Sequence[ChatMessage] = ()
    # There are calls, and the notices about them were made.
    _has_calls: bool = False
    _are_settled: bool = False

    @property
    def has_calls(self) -> bool:
        """Their results may have sentences of ours in them."""
        return self._has_calls

    # ---- input -------------------------------------------------------------------------------------------------------

    def system(self, text: str) -> None:
        """Instructions go into the leading system message. After the first assistant turn it is fixed, and later instructions
        become user messages at their position: templates reject or drop a late system message, and a changed first message
        would invalidate the whole prefix cache."""
        if not text:
            return
        if self._latest is not None:
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
            self._say(text, thought=True)

    def assistant(self, text: str) -> None:
        if text:
            self._say(text)
        else:
            # An empty message is a turn, too.
            self._assistant()

    def _say(self, text: str, *, thought: bool = False) -> None:
        if not self._assistant().add_text(text, thought=thought):
            self.notice(SAID_AGAIN)

    def call(self, call_id: str, tool: ToolIdentity, arguments: str) -> None:
        called = self._as_called(tool, arguments)
        arguments = called.arguments
        call = Call(call_id, called.name, arguments, easy=called.easy)
        if call.arguments != arguments and arguments.strip():
            self.notice(f"call {call_id}: its arguments are not a JSON object, and were sent as part of one")
        if (latest := self._latest) is not None and latest.waiting and latest.waits_for(call):
            # It stays where it is, because calls that were made together stay together.
            self.notice(f"call {call_id} was sent again before its output: it counts once")
            return
        turn = self._assistant()
        turn.add(call)
        self._has_calls = True
        self._calls[call_id] = call
        if (turns := self._waiting.get(call_id)) is None:
            turns = self._waiting[call_id] = []
        turns.append(turn)

    def search(self, tool: ToolIdentity, arguments: str) -> None:
        """A search that the gateway ran."""
        call_id = self._search_id()
        self.call(call_id, tool, arguments)
        self._searching.append(call_id)

    def _search_id(self) -> str:
        """Its item has no call_id, and clients may leave out the ids of items: so searches are numbered."""
        self._searches += 1
        return f"tool_search_{self._searches}"

    def search_output(self, text: str, where: str) -> None:
        """Without its search there is no message: its tools are offered all the same."""
        if self._searching:
            self.output(self._searching.pop(0), [{"type": "text", "text": text}], where)

    def output(self, call_id: str, parts: list[Part], where: str) -> None:
        texts = [part["text"] for part in parts if part["type"] == "text"]
        media = [part for part in parts if part["type"] != "text"] if len(texts) < len(parts) else []
        self.result(call_id, texts, media, where)

    def result(self, call_id: str, texts: list[str], media: list[Part], where: str) -> None:
        """The result of a call goes directly after it, wherever the item was."""
        if call_id not in self._calls:
            problem = f"No tool call found for the output with call_id {quoted(call_id)}."
            raise InvalidRequest(problem, param=f"{where}.call_id", code="tool_call_not_found")
        call = self._answered(call_id)
        if call.answered and (texts, media) == (call.texts, call.media):
            # Some clients send all of a history that they also continue.
            self.notice(f"the output of call {call_id} was sent again: it counts once")
            return
        call.answered = True
        call.texts += texts
        call.media += media

    def _answered(self, call_id: str) -> Call:
        """Ids may repeat from turn to turn: the latest turn that waits for this output is meant."""
        turns = self._waiting[call_id]
        while turns and call_id not in turns[-1].waiting:
            turns.pop()
        if not turns:
            return self._calls[call_id]
        if self._users_at_end and turns[-1] is self._latest:
            self._move_users_before(len(self._turns) - 1 - self._users_at_end)
        return turns[-1].answer(call_id)

    def _move_users_before(self, at: int) -> None:
        """User messages between a call and its output go before the turn of the call: a result has to follow its call, and the
        prompt has to end with it. The messages before that turn stay a prefix. The turn itself was not sent before, unless
        with a placeholder, which has to go in any case.
        """
        turn, *between = self._turns[at:]
        asked = self._asked or ()
        new: list[AssistantTurn | UserTurn] = [
            each for each in between if isinstance(each, UserTurn) and each not in asked and each != SAYS_NOTHING
        ]
        if len(new) < len(between):
            self.notice(ASKED_AGAIN)
        self._turns[at:] = [*new, turn]
        self._users_at_end = 0
        if self._asked is not None and at and isinstance(self._turns[at - 1], UserTurn):
            self._asked.add(new)
        elif new:
            self._asked = Asked(new)

    def report_failure(self, call_id: Any) -> None:
        """The item of its output, or its own, says that it failed."""
        if isinstance(call_id, str) and (call := self._calls.get(call_id)) is not None:
            call.failed = True

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def notice(self, text: str) -> None:
        self.notices[text] = None

    def _assistant(self) -> AssistantTurn:
        last = self._turns[-1] if self._turns else None
        # After a call with a result the model was asked again: that is a new turn.
        if not isinstance(last, AssistantTurn) or (last.answered and not self.joins_answer):
            last = AssistantTurn()
            if self._users_at_end:
                self._asked = Asked(self._turns[-self._users_at_end :])
            self._turns.append(last)
            self._latest = last
            self._users_at_end = 0
        return last

    def add(self, turn: AssistantTurn | UserTurn) -> None:
        """What the items do not have yet: a round of tools, an answer that was rejected."""
        last = self._turns[-1] if self._turns else None
        self._are_settled = False
        if isinstance(turn, AssistantTurn):
            # The notes in it are those of this draft, and so are the ids of searches.
            calls = [structs.replace(call, id=call.id or self._search_id()) for call in turn.calls]
            turn = self._latest = structs.replace(turn, calls=calls)
            self._has_calls = self._has_calls or bool(calls)
        if isinstance(turn, AssistantTurn) and isinstance(last, AssistantTurn) and not last.calls:
            last.extend(turn)
            self._latest = last
        else:
            self._turns.append(turn)

    def stop_loops(
        self, *, helped: bool, polls: Collection[str] = (), changes: Callable[[str], bool] = changes_nothing
    ) -> Loops:
        """Notes in the results of calls that are made again and again; and what may not be called now. `helped`: the model is
        small. `polls`: tools that may be called again at once. `changes`: a call of this tool may have changed something."""
        if self._latest is None or not (self._has_calls or helped):
            return NO_LOOPS
        self._settle_calls()
        loops = find_loops(self._turns, helped=helped, polls=polls, changes=changes)
        for call, note in loops.notes:
            call.note = note
            self.notice(NOTED.format(id=call.id, name=call.name))
        return loops

    # ---- output ------------------------------------------------------------------------------------------------------

    def messages(self, dialect: Dialect, *, head: str, tail: list[str]) -> list[ChatMessage]:
        """`head` is the request's `instructions`; `tail` is what Antiphon adds to them."""
        if self._has_calls:
            self._settle_calls()
        messages = [*self.examples]
        for turn in self._turns:
            messages += turn.messages()
        if system := "\n\n".join(filter(None, (head, *self._system, *tail))):
            messages.insert(0, ChatMessage(role="system", content=system))
        if not messages:
            raise InvalidRequest(
                "`input` is empty: there is nothing to respond to.", param="input", code="missing_required_parameter"
            )
        messages, notices = apply_template_rules(messages, dialect, has_answers=self._latest is not None or bool(self.examples))
        self.notices.update(dict.fromkeys(notices))
        return messages

    def _settle_calls(self) -> None:
        """Once all items were read, and again if turns were added to them."""
        if self._are_settled or not self._has_calls:
            return
        self._are_settled = True
        for turn in self._turns:
            # There is nothing to say about a lone call that has its output.
            if isinstance(turn, AssistantTurn) and (len(turn.calls) > 1 or (turn.calls and not turn.calls[0].answered)):
                self._notice_calls(turn)

    def _notice_calls(self, turn: AssistantTurn) -> None:
        for call in turn.drop_replaced():
            self.notice(f"call {call.id} was sent again with other arguments: these count")
        for call in turn.calls:
            if not call.answered:
                self.notice(f"call {call.id} has no output: a placeholder was sent")
