"""What every reader of an engine's answer does, whatever the API of the engine is."""

import sys

from antiphon.core.events.deltas import Delta
from antiphon.core.events.lifecycle import Numbering
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.stream.fast_path import Continuation
from antiphon.core.stream.reasoning_tags import Start
from antiphon.core.stream.text_calls import CallFinder
from antiphon.wire.chat import PromptProgress


class AnswerStream:
    """An engine's bytes → deltas: `receive()` bytes, then `close()`. A reader has to do no more than that. The rest is for
    large pieces, for short cuts, and for what the answer teaches."""

    __slots__ = ("ended", "is_cut", "most_at_once")

    def __init__(
        self,
        start: Start = Start.UNKNOWN,
        finder: CallFinder | None = None,
        *,
        most_at_once: int = sys.maxsize,
        passes_extras: bool = False,
        passes_progress: bool = False,
    ) -> None:
        """`start`: whether the answer begins inside a thought. `finder`: of calls in the text. `most_at_once`: what is longer
        is left to `read_on()`. `passes_extras`: what an answer has beside the members of the API is a delta, too.
        `passes_progress`: so is what it reports of its reading."""
        self.most_at_once = most_at_once
        # The engine has said that its answer is complete.
        self.ended = False
        # The rest of the answer is not wanted.
        self.is_cut = False

    def receive(self, data: bytes) -> list[Delta]:
        raise NotImplementedError

    def close(self) -> list[Delta]:
        """The deltas that were waiting for more."""
        return []

    @property
    def progress(self) -> PromptProgress | None:
        """The last report of the engine while it read the prompt."""
        return None

    # ---- what the answer teaches -------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """The engine has sent an error, or what is not an answer."""
        return False

    @property
    def template_opens_thought(self) -> bool:
        return False

    @property
    def has_logprobs(self) -> bool:
        return False

    @property
    def left_out(self) -> str:
        """What the model wrote before its JSON, and is not passed on."""
        return ""

    # ---- large pieces ------------------------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """There is more to read than `receive()` did: `read_on()` before anything else is received."""
        return False

    @property
    def has_large_end(self) -> bool:
        """`close()` has much to read."""
        return False

    def read_on(self) -> list[Delta]:
        return []

    # ---- short cuts --------------------------------------------------------------------------------------------------

    @property
    def has_cut(self) -> bool:
        """The last read ended with the beginning of a frame."""
        return False

    def continuation(self, path: FastPath | None, numbering: Numbering) -> Continuation | None:
        """What the next read is compared with. None: it has to be received, whatever it is."""
        return None

    def catch_up(self, continued: Continuation) -> None:
        """Before anything else is received after what was taken."""

    def with_cut(self, data: bytes) -> bytes:
        """A read, behind the beginning of its first frame."""
        return data

    def keep_cut(self, data: bytes) -> bool:
        """The beginning of a frame waits for the rest. False: this is something else."""
        return False
