"""Which request is the turn before another one."""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Literal

from antiphon.core.recording.prompt_changes import PromptPrint
from antiphon.wire.responses import CreateResponse

# Of each conversation, so many turns are compared.
MOST_TURNS = 16


# What a conversation is known by: its kind, the owner, and its id; or a hash of the key for its cache, or of its first message.
Thread = tuple[Literal["conversation", "key", "first"], str, Hashable]


class Turn:
    """What is known of the prompts of one request."""

    __slots__ = ("number", "owner", "previous_id", "prints", "response_id", "threads")

    def __init__(self, number: int, owner: str) -> None:
        self.number = number
        self.owner = owner
        self.response_id = ""
        self.previous_id: str | None = None
        # What the conversation is known by, the better first.
        self.threads: list[Thread] = []
        # One for each chat request.
        self.prints: list[PromptPrint] = []

    def describe(self, response_id: str, request: CreateResponse) -> None:
        self.response_id, self.previous_id = response_id, request.previous_response_id
        if request.conversation is not None and (conversation := _conversation_id(request)) is not None:
            self.threads.append(("conversation", self.owner, conversation))
        if request.prompt_cache_key:
            self.threads.append(("key", self.owner, hash(request.prompt_cache_key)))

    def continues(self, earlier: "Turn") -> bool:
        """The prompt of this one begins with one of the earlier one's."""
        return any(self.prints[0].extends(each) for each in earlier.prints)

    def shared(self, earlier: "Turn") -> int:
        return max((self.prints[0].shared(each) for each in earlier.prints), default=0)

    @property
    def length(self) -> int:
        return len(self.prints[0].messages)


def _conversation_id(request: CreateResponse) -> str | None:
    given = request.conversation
    id = given.get("id") if isinstance(given, dict) else given
    return id if isinstance(id, str) else None


class Turns:
    """Those that are remembered, by what their conversations are known by."""

    def __init__(self) -> None:
        self._by_id: dict[str, Turn] = {}
        self._threads: dict[Thread, deque[Turn]] = {}

    def asked(self, turn: Turn, prompt: PromptPrint, model: str) -> Turn | None:
        """A turn has its first prompt: the turn before it, if it is known."""
        turn.prints.append(prompt)
        if (first := prompt.first) is not None:
            turn.threads.append(("first", turn.owner, (model, first)))
        previous = self._find(turn)
        self._by_id[turn.response_id] = turn
        for thread in turn.threads:
            if (turns := self._threads.get(thread)) is None:
                turns = self._threads[thread] = deque(maxlen=MOST_TURNS)
            turns.append(turn)
        return previous

    def forget(self, turn: Turn) -> None:
        if self._by_id.get(turn.response_id) is turn:
            del self._by_id[turn.response_id]
        for thread in turn.threads:
            turns = self._threads.get(thread)
            if turns is not None and turn in turns:
                turns.remove(turn)
                if not turns:
                    del self._threads[thread]

    def _find(self, turn: Turn) -> Turn | None:
        if turn.previous_id is not None:
            named = self._by_id.get(turn.previous_id)
            return named if named is not None and named.owner == turn.owner else None
        for thread in turn.threads:
            earlier = self._threads.get(thread)
            if earlier is None:
                continue
            if thread[0] == "conversation":
                return earlier[-1]
            if (found := _nearest(turn, earlier, is_sure=thread[0] == "key")) is not None:
                return found
        return None


def _nearest(turn: Turn, earlier: Iterable[Turn], *, is_sure: bool) -> Turn | None:
    """The turn whose prompt this one shares most with, the latest of several. `is_sure`: the client says that it is the same
    conversation; otherwise it has to have grown: the same question may be asked twice."""
    prompt = turn.prints[0]
    length = len(prompt.messages)
    if not is_sure and length <= prompt.leading + 1:
        # It has one message: it continues nothing.
        return None
    candidates = [each for each in earlier if is_sure or each.length < length]
    return max(candidates, key=lambda each: (turn.shared(each), each.number)) if candidates else None
