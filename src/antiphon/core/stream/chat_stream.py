"""The bytes of a Chat Completions engine → deltas: the frames, the chunks in them, and a template that lets both be skipped.

Nearly every chunk of a stream is the one before it with another text. So the bytes around the last text are kept as a
template. A read that matches it is decoded by taking the text out, with exactly the result of the full decoding.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from antiphon.core.events.deltas import CallDelta, Delta, Finished, ReasoningDelta, TextDelta
from antiphon.core.events.lifecycle import Numbering
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.stream.answer_stream import AnswerStream
from antiphon.core.stream.chat_chunks import ChunkReader
from antiphon.core.stream.fast_path import FRAME_END, Continuation
from antiphon.core.stream.frames import FRAME_START, FrameReader
from antiphon.core.stream.reasoning_tags import Start
from antiphon.core.stream.text_calls import CallFinder
from antiphon.errors import ApiError
from antiphon.wire.chat import ChatRequest, PromptProgress

DONE = b"[DONE]"
# Bytes. The beginning of a frame that is longer is left to the reader of frames.
LONGEST_CUT = 4096
_to_json = msgspec.json.Encoder().encode


def chat_to_bytes(chat: ChatRequest) -> bytes:
    """The body of POST /v1/chat/completions."""
    return _to_json(chat if chat.extras is UNSET else chat_to_members(chat))


def chat_to_members(chat: ChatRequest) -> dict[str, Any]:
    """The same, as JSON has it."""
    members: dict[str, Any] = msgspec.to_builtins(chat)
    return {**members.pop("extras", {}), **members}


class ChunkTemplate(NamedTuple):
    """A read without its text. `kind`: by the member that the text is in."""

    head: bytes
    tail: bytes
    kind: type[Delta]
    # The index of the call whose arguments these are.
    call: int | None = None


# The members of a delta whose text a template may have.
MEMBERS: dict[bytes, type[Delta]] = {
    b'"content":': TextDelta,
    b'"reasoning_content":': ReasoningDelta,
    b'"reasoning":': ReasoningDelta,
    b'"arguments":': CallDelta,
}


class ChatStream(AnswerStream):
    """`ended`: the engine has sent `[DONE]`. `failed`: it has sent an error, or what is not a chunk."""

    __slots__ = ("_cut", "_frames", "_new", "_reader", "_template", "_unread")

    def __init__(
        self,
        start: Start = Start.UNKNOWN,
        finder: CallFinder | None = None,
        *,
        most_at_once: int = sys.maxsize,
        passes_extras: bool = False,
        passes_progress: bool = False,
    ) -> None:
        self.most_at_once = most_at_once
        self.ended = self.is_cut = False
        # How many bytes may be read at once with the next ones, at most.
        self._new = 0
        # Frames that are left to it.
        self._unread: list[bytes] = []
        # The beginning of a frame, with which the last read ended: the next one may still be compared with a template.
        self._cut = b""
        self._frames = FrameReader()
        self._reader = ChunkReader(start, finder, passes_extras=passes_extras, passes_progress=passes_progress)
        self._template: ChunkTemplate | None = None

    @property
    def progress(self) -> PromptProgress | None:
        return self._reader.progress

    @property
    def template_opens_thought(self) -> bool:
        return self._reader.tags.unopened

    @property
    def has_logprobs(self) -> bool:
        return self._reader.has_logprobs

    @property
    def left_out(self) -> str:
        """What the model wrote before its JSON, and is not passed on."""
        return self._reader.tags.left_out

    @property
    def failed(self) -> bool:
        return self._reader.failed

    @property
    def has_cut(self) -> bool:
        return bool(self._cut)

    @property
    def is_behind(self) -> bool:
        """There is more to read than `receive()` did: `read_on()` before anything else is received."""
        return bool(self._unread)

    @property
    def has_large_end(self) -> bool:
        """`close()` has much to read."""
        if self.ended and self._reader.has_nothing_left:
            # As nearly always: nothing waits.
            return bool(self._unread)
        return bool(self._unread) or max(self._frames.document_size, self._reader.waiting) > self.most_at_once

    def continuation(self, path: FastPath | None, numbering: Numbering) -> Continuation | None:
        """What the next read is compared with. None: it has to be received, whatever it is."""
        template = self._template
        if template is None or path is None or path.index != template.call:
            return None
        continues = self._reader.continues(template.kind)
        if continues is None or continues.kind is not path.kind:
            return None
        return Continuation(template.head, template.tail, path, numbering, continues.takes, continues.without)

    def catch_up(self, continued: Continuation) -> None:
        """Before anything else is received after what was taken."""
        if self._template is not None and self._template.kind is TextDelta:
            self._reader.catch_up(continued.last)

    def with_cut(self, data: bytes) -> bytes:
        """A read, behind the beginning of its first frame."""
        cut, self._cut = self._cut, b""
        return cut + data if cut else data

    def keep_cut(self, data: bytes) -> bool:
        """The beginning of a frame waits for the rest. False: this is something else."""
        begins = data[: len(FRAME_START)] == FRAME_START[: len(data)]
        is_beginning = begins and len(data) <= LONGEST_CUT and data.find(FRAME_END) < 0
        self._cut = data if is_beginning else b""
        return is_beginning

    def receive(self, data: bytes) -> list[Delta]:
        data = self.with_cut(data)
        end = data.rfind(FRAME_END) + len(FRAME_END)
        if len(FRAME_END) <= end < len(data) and self.keep_cut(data[end:]):
            data = data[:end]
        try:
            frames = self._frames.receive(data)
        except ApiError as error:
            self._template, self._cut = None, b""
            return [self._reader.fail(error)]
        self._new += len(data)
        if self._new > self.most_at_once:
            frames = self._at_once(frames)
        if not frames:
            self._template = None
            return []
        deltas = self._read(frames[:-1])
        last = self._read(frames[-1:])
        is_all = self._frames.empty and not self._unread
        self._template = self._to_template(_last_frame(data), last[0]) if len(last) == 1 and is_all else None
        return deltas + last if deltas else last

    def read_on(self) -> list[Delta]:
        unread, self._unread = self._unread, []
        deltas = self._read(unread[:-1])
        last = self._read(unread[-1:])
        is_one = len(last) == 1 and self._frames.empty
        self._template = self._to_template(FRAME_START + unread[-1] + FRAME_END, last[0]) if is_one else None
        self._new = self._reader.waiting + self._frames.pending
        return deltas + last

    def close(self) -> list[Delta]:
        if self.ended and not self._unread:
            # What follows the end is not read.
            return self._reader.close()
        frames = self._frames.receive(cut) if (cut := self.with_cut(b"")) else []
        return self.read_on() + self._read([*frames, *self._frames.close()]) + self._reader.close()

    def _at_once(self, frames: list[bytes]) -> list[bytes]:
        """The frames up to one that makes it too much to be read at once. The others are left unread."""
        most, waiting, size = self.most_at_once, self._reader.waiting, 0
        for at, frame in enumerate(frames):
            size += len(frame)
            if self._unread or size > most or (waiting > most and self._reader.ends_waiting(frame)):
                self._unread.extend(frames[at:])
                # Whatever comes next has to wait, too.
                self._new = most
                return frames[:at]
        self._new = waiting + size + self._frames.pending
        return frames

    def _read(self, frames: Iterable[bytes]) -> list[Delta]:
        deltas: list[Delta] = []
        for frame in frames:
            if frame.strip() == DONE:
                self.ended = True
            elif not self.ended and not self.is_cut and not self._reader.failed:
                deltas += self._reader.receive(frame)
                if deltas and type(last := deltas[-1]) is Finished:
                    self.is_cut = last.stop_sequence is not None
        return deltas

    def _to_template(self, data: bytes, delta: Delta) -> ChunkTemplate | None:
        """A template of this frame, if it has its text once, as JSON is usually written."""
        index = None
        if isinstance(delta, CallDelta):
            text, index = delta.arguments, delta.index
        elif isinstance(delta, TextDelta | ReasoningDelta):
            text = delta.text
        else:
            return None
        literal = _to_json(text)
        at = data.find(literal)
        if at < 0:
            # Some engines escape all but ASCII.
            literal = json.dumps(text).encode()
            at = data.find(literal)
        if not text or at < 0 or data.find(literal, at + 1) >= 0 or data.count(b"\n") != 2:
            return None
        member = data[:at].rstrip(b" ")
        kind = next((kind for name, kind in MEMBERS.items() if member.endswith(name)), None)
        opens = isinstance(delta, CallDelta) and (delta.id is not None or delta.name is not None)
        return None if kind is None or opens else ChunkTemplate(data[: at + 1], data[at + len(literal) - 1 :], kind, index)


def _last_frame(data: bytes) -> bytes:
    """Of a read that ends with a frame."""
    end = data.rfind(FRAME_END, 0, -len(FRAME_END))
    return data if end < 0 else data[end + len(FRAME_END) :]
