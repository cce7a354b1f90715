"""Asking an engine: each question once, with a patience of its own, its answer read whole or until it has told enough."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from antiphon.core.deltas import CallDelta, Delta, EngineFailed, Finished, ReasoningDelta, TextDelta, UsageReport
from antiphon.core.chunk_reader import ChunkReader
from antiphon.core.dialect import Lookup
from antiphon.core.failures import REFUSED, failure_to_error, http_answer_to_failure
from antiphon.core.sse import FrameReader
from antiphon.core.think_tags import Start
from antiphon.engines.detection import follow
from antiphon.engines.probes.findings import NoAnswer
from antiphon.engines.probes.questions import HELLO
from antiphon.engines.upstream import LARGEST_ERROR, Engine, ours
from antiphon.errors import ApiError, ContextLengthExceeded, InvalidRequest
from antiphon.wire import UNREADABLE
from antiphon.wire.chat import Chunk, DeltaChunk
from antiphon.wire.responses import Usage

# Seconds for one question, prompt and answer: an engine that is busy or slow is not kept busy longer.
PATIENCE = 60.0
# So many questions without an answer, and no more are put.
GIVES_UP_AFTER = 3
# llama.cpp promises to keep a connection, and closes it behind each stream: the next question would run into that.
ONE_QUESTION = {"Connection": "close"}
DONE = b"[DONE]"
LONGEST_WORDS = 160

_decode = msgspec.json.Decoder(Chunk).decode
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine will not do what was asked, and says why."""

    words: str

    def __str__(self) -> str:
        words = " ".join(self.words.split())
        # A template's own words stand at the end of a long complaint about it.
        short = words if len(words) <= LONGEST_WORDS else f"{words[: LONGEST_WORDS // 2]} … {words[-LONGEST_WORDS // 2 :]}"
        return f"refused: {short}"


def _refusal(error: ApiError) -> Refusal:
    """Only what the engine has against the request itself: that it is busy, broken or too small says nothing of it."""
    if not isinstance(error, InvalidRequest) or isinstance(error, ContextLengthExceeded):
        raise NoAnswer(error.message[:LONGEST_WORDS])
    return Refusal(error.message.removeprefix(REFUSED))


@dataclass(slots=True)
class Call:
    name: str
    arguments: str = ""


@dataclass(slots=True)
class Heard:
    """An answer as far as it was read."""

    text: str = ""
    thought: str = ""
    # The text as it came, tags and all, and the members of a delta that brought something.
    raw: str = ""
    members: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    logprobs: bool = False
    usage: Usage | None = None
    finish: str | None = None
    unopened: bool = False


class Listener:
    """Reads a stream into what is heard: `receive()` bytes, then `close()`."""

    def __init__(self, start: Start) -> None:
        self.heard = Heard()
        self.failed: ApiError | None = None
        self._frames = FrameReader()
        self._reader = ChunkReader(start)

    def receive(self, data: bytes) -> None:
        self._read(self._frames.receive(data))

    def close(self) -> None:
        self._read(self._frames.close())
        for delta in self._reader.close():
            self._take(delta)
        self.heard.unopened = self._reader.template_opens_thought

    def _read(self, frames: list[bytes]) -> None:
        for frame in frames:
            if frame.strip() != DONE:
                for delta in self._reader.receive(frame):
                    self._take(delta)
                self._note(frame)

    def _note(self, frame: bytes) -> None:
        """What the deltas no longer tell: where each piece stood."""
        try:
            choices = _decode(frame).choices or ()
        except UNREADABLE:
            return
        for choice in choices:
            delta = choice.delta or choice.message or DeltaChunk()
            self.heard.members |= {name for name in delta.__struct_fields__ if getattr(delta, name)}
            self.heard.raw += delta.content if isinstance(delta.content, str) else ""
            self.heard.logprobs |= choice.logprobs is not None and bool(choice.logprobs.content)

    def _take(self, delta: Delta) -> None:
        heard = self.heard
        match delta:
            case TextDelta():
                heard.text += delta.text
            case ReasoningDelta():
                heard.thought += delta.text
            case CallDelta():
                # Engines interleave nothing that is asked for here, so a piece without a name goes on with the last call.
                if delta.name is not None:
                    heard.calls.append(Call(delta.name))
                if heard.calls:
                    heard.calls[-1].arguments += delta.arguments
            case UsageReport():
                heard.usage = delta.usage
            case Finished():
                heard.finish = delta.reason
            case EngineFailed():
                self.failed = delta.error


Enough = Callable[[Heard], bool]
Turn = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Nobody else is to be let go first."""


class Asker:
    """Puts questions to one model of one engine."""

    def __init__(self, engine: Engine, model: str, patience: float, turn: Turn = at_once) -> None:
        self.engine = engine
        self.model = model
        self.dialect = engine.dialect
        self._patience = patience
        self._turn = turn
        self._at = next((at for at, known in enumerate(engine.models) if known.id == model), 0)
        self._documents = engine.prober()
        self._answers: dict[bytes, Heard | Refusal] = {}
        self._unanswered = 0
        self._options: Body = {"stream_options": {"include_usage": True}}

    # ---- chat --------------------------------------------------------------------------------------------------------

    async def plain(self) -> Heard:
        """The answer to a question that has nothing particular. An engine that refuses it cannot be asked anything."""
        answer = await self._chat({}, 1, None)
        if isinstance(answer, Refusal) and self._options:
            self._options = {}
            answer = await self._chat({}, 1, None)
        if isinstance(answer, Refusal):
            raise NoAnswer(f"a plain request was {answer}")
        return answer

    async def ask(self, *, tokens: int = 1, enough: Enough | None = None, **fields: Any) -> Heard | Refusal:
        """`fields` join those of every request; one that is None is left out."""
        await self.plain()
        return await self._chat(fields, tokens, enough)

    async def without_thinking(self) -> Body:
        """The field that switches thinking off, where the engine takes it: an answer is then seen sooner."""
        if self.dialect.efforts.get("none") != "none":
            return {}
        effort = "none"
        return {} if isinstance(await self.ask(reasoning_effort=effort), Refusal) else {"reasoning_effort": effort}

    async def _chat(self, fields: Body, tokens: int, enough: Enough | None) -> Heard | Refusal:
        body: Body = {"model": self.model, "messages": HELLO, "temperature": 0, "stream": True, **self._options}
        body |= {self.dialect.max_tokens_member: tokens, **self.dialect.extra, **fields}
        question = msgspec.json.encode({name: value for name, value in body.items() if value is not None})
        if question not in self._answers:
            self._answers[question] = await self._patiently("/v1/chat/completions", question, enough)
        return self._answers[question]

    async def _patiently(self, path: str, body: bytes, enough: Enough | None) -> Heard | Refusal:
        if self._unanswered >= GIVES_UP_AFTER:
            raise NoAnswer("the engine has stopped answering")
        await self._turn()
        self._unanswered += 1
        try:
            async with asyncio.timeout(self._patience), ours(self.engine.root):
                answer = await self._listen(await self.engine.post(path, body, ONE_QUESTION), enough)
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._patience:g} seconds") from None
        except ApiError as error:
            raise NoAnswer(error.message) from None
        self._unanswered -= 1
        return answer

    async def _listen(self, answer: aiohttp.ClientResponse, enough: Enough | None) -> Heard | Refusal:
        try:
            if answer.status != 200:
                body = await answer.content.read(LARGEST_ERROR)
                return _refusal(failure_to_error(http_answer_to_failure(answer.status, body)))
            # Whoever waits for the end may learn there that all had been a thought.
            listener = Listener(Start.PATIENT if enough is None else Start.UNKNOWN)
            while data := await answer.content.readany():
                listener.receive(data)
                if enough is not None and enough(listener.heard):
                    break
            else:
                listener.close()
                if listener.heard.finish is None and listener.failed is None:
                    raise NoAnswer("the answer broke off")
            return listener.heard if listener.failed is None else _refusal(listener.failed)
        finally:
            # An answer that has told enough is ended on the engine's side too.
            answer.release() if answer.content.at_eof() else answer.close()

    # ---- beside chat -------------------------------------------------------------------------------------------------

    async def told(self, lookups: tuple[Lookup, ...]) -> bool | None:
        """What the engine says of itself; None where it says nothing."""
        value = await self._documents.look_up(lookups, self.model, self._at)
        return value if isinstance(value, bool) else None

    async def rendered(self, **fields: Any) -> str | None:
        """The prompt that a request becomes; None where the engine does not show it, or its template fails."""
        template = self.dialect.template
        if template is None:
            return None
        body = msgspec.json.encode({"model": self.model, "messages": HELLO, **fields})
        prompt = follow(await self._documents.get(template.path, body), template.prompt_key)
        return prompt if isinstance(prompt, str) else None

    async def reaches(self, mark: str, long: Body, short: Body) -> bool | None:
        """Whether a text reaches the model: its mark stands in the prompt, or a longer text makes a longer prompt."""
        prompt = await self.rendered(**long)
        if prompt is not None:
            return mark in prompt
        counts = [
            answer.usage.input_tokens
            for answer in (await self.ask(**long), await self.ask(**short))
            if isinstance(answer, Heard) and answer.usage is not None and answer.usage.input_tokens
        ]
        if len(counts) < 2 or counts[0] < counts[1]:
            return None
        return counts[0] > counts[1]
