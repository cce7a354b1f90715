"""The client of the probes: each request is sent once, within a time limit, and its answer is read as far as needed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct, field

from antiphon.core.events.deltas import CallDelta, Delta, EngineFailed, Finished, ReasoningDelta, TextDelta, UsageReport
from antiphon.core.knowledge.dialect import Lookup, Template
from antiphon.core.knowledge.failures import UNPARSED, failure_to_error, http_answer_to_failure
from antiphon.core.stream.chat_chunks import ChunkReader, cached_tokens_of
from antiphon.core.stream.engine_protocols import CHAT_COMPLETIONS
from antiphon.core.stream.frames import FrameReader
from antiphon.core.stream.reasoning_tags import Start
from antiphon.engines.bodies import read_document, read_error
from antiphon.engines.detection import NO_SUCH_ROUTE, follow
from antiphon.engines.probes.findings import Failed, NoAnswer, Unparsed
from antiphon.engines.probes.questions import HELLO, LONG_MESSAGE, SHORT_MESSAGE
from antiphon.engines.replies import ours
from antiphon.engines.requests import RETRIED
from antiphon.engines.upstream import Engine
from antiphon.errors import UNREADABLE, ApiError, ContextLengthExceeded, EngineUnavailable, InvalidRequest, counted
from antiphon.transport import CLOSE_CONNECTION
from antiphon.wire.chat import Chunk, DeltaChunk
from antiphon.wire.responses import Usage

# Seconds for one request, from its prompt to the end of its answer: a slow engine is not kept busy any longer.
TIME_LIMIT = 60.0
# Seconds for a prompt to be rendered.
RENDER_TIME_LIMIT = 5.0
# After so many requests without an answer no more are sent.
MOST_UNANSWERED = 3
CHAT = CHAT_COMPLETIONS.path
DONE = b"[DONE]"
LONGEST_REASON = 160
# What an engine answers that is busy, starting, or broken for the moment.
MAY_PASS = RETRIED | {500}
TEMPLATE_ERROR = "Jinja Exception:"
# The fields that a template gets.
TEMPLATE_FIELDS = frozenset({"messages", "tools"})

_decode = msgspec.json.Decoder(Chunk).decode
Body = dict[str, Any]


class Rejection(Struct, frozen=True):
    """The engine rejects the request, for a reason in its own words."""

    reason: str

    def __str__(self) -> str:
        return f"rejected: {_shortened(self.reason.rpartition(TEMPLATE_ERROR)[2])}"


def _shortened(reason: str) -> str:
    words = " ".join(reason.split())
    # An error of a chat template has the template's own message at its end.
    half = LONGEST_REASON // 2
    return words if len(words) <= LONGEST_REASON else f"{words[:half]} … {words[-half:]}"


def _to_rejection(error: ApiError) -> Rejection:
    """Only for what is wrong with the request itself: an engine that is busy, broken or too small says nothing about it."""
    if not isinstance(error, InvalidRequest) or isinstance(error, ContextLengthExceeded):
        broke_down = error.failure is not None and error.failure.status >= 500 and not isinstance(error, EngineUnavailable)
        may_pass = error.failure is None or error.failure.status in MAY_PASS
        raise _kind(error, broke_down=broke_down)(_shortened(error.message), may_pass=may_pass)
    return Rejection(error.failure.message if error.failure is not None else error.message)


def _kind(error: ApiError, *, broke_down: bool) -> type[NoAnswer]:
    if error.failure is not None and UNPARSED.search(error.failure.message):
        return Unparsed
    return Failed if broke_down else NoAnswer


class Call(Struct):
    name: str
    arguments: str = ""


class Answer(Struct):
    """An answer as far as it was read."""

    text: str = ""
    reasoning: str = ""
    # The text as it arrived, with its tags, and the members of the deltas that were not empty.
    raw_text: str = ""
    members: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    logprobs: bool = False
    usage: Usage | None = None
    # None: the usage does not have them.
    cached_tokens: int | None = None
    finish_reason: str | None = None
    # The text began inside a thought that the template had opened.
    opens_thought: bool = False


class ProbeReader:
    """Reads a stream into an `Answer`: `receive()` its bytes, then `close()`."""

    def __init__(self, start: Start) -> None:
        self.answer = Answer()
        self.error: ApiError | None = None
        self._frames = FrameReader()
        self._reader = ChunkReader(start)

    def receive(self, data: bytes) -> None:
        self._read(self._frames.receive(data))

    def close(self) -> None:
        self._read(self._frames.close())
        for delta in self._reader.close():
            self._add_delta(delta)
        self.answer.opens_thought = self._reader.template_opens_thought

    def _read(self, frames: list[bytes]) -> None:
        for frame in frames:
            if frame.strip() != DONE:
                for delta in self._reader.receive(frame):
                    self._add_delta(delta)
                self._add_raw(frame)

    def _add_raw(self, frame: bytes) -> None:
        """What deltas do not show: in which member of the chunk each piece arrived."""
        try:
            chunk = _decode(frame)
        except UNREADABLE:
            return
        if (cached := cached_tokens_of(chunk)) is not None:
            self.answer.cached_tokens = cached
        for choice in chunk.choices or ():
            delta = choice.delta or choice.message or DeltaChunk()
            self.answer.members |= {name for name in delta.__struct_fields__ if getattr(delta, name)}
            self.answer.raw_text += delta.content if isinstance(delta.content, str) else ""
            self.answer.logprobs |= choice.logprobs is not None and bool(choice.logprobs.content)

    def _add_delta(self, delta: Delta) -> None:
        answer = self.answer
        match delta:
            case TextDelta():
                answer.text += delta.text
            case ReasoningDelta():
                answer.reasoning += delta.text
            case CallDelta():
                # No engine interleaves the calls that are asked for here: a piece without a name continues the last call.
                if delta.name is not None:
                    answer.calls.append(Call(delta.name))
                if answer.calls:
                    answer.calls[-1].arguments += delta.arguments
            case UsageReport():
                answer.usage = delta.usage
            case Finished():
                answer.finish_reason = delta.reason
            case EngineFailed():
                self.error = delta.error


Condition = Callable[[Answer], bool]
Wait = Callable[[], Awaitable[None]]


async def no_wait() -> None:
    """For a caller that may use the engine at once."""


class ProbeClient:
    """Sends the requests of the probes to one model of one engine."""

    def __init__(self, engine: Engine, model: str, time_limit: float, wait_until_idle: Wait = no_wait) -> None:
        self.engine = engine
        self.model = model
        self.dialect = engine.dialect
        self._time_limit = time_limit
        self._wait_until_idle = wait_until_idle
        self._model_index = next((at for at, known in enumerate(engine.models) if known.id == model), 0)
        self._documents = engine.documents()
        self._answers: dict[bytes, Answer | Rejection] = {}
        self._prompts: dict[bytes, str | Rejection | None] = {}
        self._unanswered = 0
        self._options: Body = {"stream_options": {"include_usage": True}}
        # The engine's own parser has failed on an answer to a plain request.
        self.parser_fails = False

    # ---- chat requests -----------------------------------------------------------------------------------------------

    async def baseline(self) -> Answer:
        """The answer to a request with nothing special in it. An engine that rejects it cannot be probed."""
        try:
            answer = await self._chat({}, 1, None)
        except Unparsed:
            # As for clients: the parser is switched off, where that is possible.
            self._options |= self.dialect.unparsed_extra
            self.parser_fails = True
            answer = await self._chat({}, 1, None)
        if isinstance(answer, Rejection) and self._options:
            self._options = {}
            answer = await self._chat({}, 1, None)
        if isinstance(answer, Rejection):
            raise NoAnswer(f"a plain request was {answer}", may_pass=False)
        return answer

    async def ask(self, *, tokens: int = 1, stop_when: Condition | None = None, **fields: Any) -> Answer | Rejection:
        """`fields` are added to those of every request; a field that is None is left out."""
        await self.baseline()
        return await self._chat(fields, tokens, stop_when)

    async def ask_twice(self, **fields: Any) -> Answer | Rejection:
        """As `ask`, for what some engines break down over. One that does so twice, and not over a plain request, rejects it."""
        await self.baseline()
        unanswered, reason = self._unanswered, ""
        for _ in range(2):
            try:
                return await self.ask(**fields)
            except Failed as failure:
                self._unanswered = unanswered
                reason = str(failure)
        return Rejection(reason)

    async def without_thinking(self) -> Body:
        """The field that switches thinking off, if the engine accepts it: the answer then begins sooner."""
        if self.dialect.efforts.get("none") != "none":
            return {}
        effort = "none"
        return {} if isinstance(await self.ask(reasoning_effort=effort), Rejection) else {"reasoning_effort": effort}

    async def only_thinks(self, **fields: Any) -> bool:
        """What was seen without thinking need not happen with it: a thought may take all tokens that the answer has."""
        try:
            answer = await self.ask(**fields)
        except NoAnswer:
            return False
        return isinstance(answer, Answer) and bool(answer.reasoning) and not answer.text.strip() and not answer.calls

    async def _chat(self, fields: Body, tokens: int, stop_when: Condition | None) -> Answer | Rejection:
        request = self._request(fields, tokens)
        if request not in self._answers:
            self._answers[request] = await self._send(request, stop_when)
        return self._answers[request]

    def _request(self, fields: Body, tokens: int) -> bytes:
        body: Body = {"model": self.model, "messages": HELLO, "temperature": 0, "stream": True, **self._options}
        body = {**self.dialect.extra, **body, self.dialect.max_tokens_member: tokens, **fields}
        return msgspec.json.encode({name: value for name, value in body.items() if value is not None})

    async def _send(self, request: bytes, stop_when: Condition | None) -> Answer | Rejection:
        if self._unanswered >= MOST_UNANSWERED:
            raise NoAnswer("the engine has stopped answering")
        await self._wait_until_idle()
        self._unanswered += 1
        try:
            answer = await self._post(request, stop_when)
        except TimeoutError:
            raise NoAnswer(f"no answer within {counted(self._time_limit, 'second')}") from None
        except ApiError as error:
            if await self._answers_another(request):
                self._unanswered -= 1
            raise NoAnswer(error.message) from None
        except Unparsed:
            self._unanswered -= 1
            raise
        self._unanswered -= 1
        return answer

    async def _post(self, request: bytes, stop_when: Condition | None = None) -> Answer | Rejection:
        async with asyncio.timeout(self._time_limit), ours(self.engine.root):
            return await self._read(await self.engine.post(CHAT, request, CLOSE_CONNECTION), stop_when)

    async def _answers_another(self, lost: bytes) -> bool:
        """Whether the engine answers a plain request, after one whose connection was lost. Then it has not stopped answering,
        and the other probes are worth their while."""
        plain = self._request({}, 1)
        if plain == lost:
            return False
        try:
            await self._post(plain)
        except (TimeoutError, ApiError, NoAnswer):
            return False
        return True

    async def _read(self, response: aiohttp.ClientResponse, stop_when: Condition | None) -> Answer | Rejection:
        try:
            if response.status != 200:
                failure = http_answer_to_failure(response.status, await read_error(response))
                return _to_rejection(failure_to_error(failure))
            # An answer that is read to its end may turn out there to have begun inside a thought.
            reader = ProbeReader(Start.PATIENT if stop_when is None else Start.UNKNOWN)
            while data := await response.content.readany():
                reader.receive(data)
                if stop_when is not None and stop_when(reader.answer):
                    break
            else:
                reader.close()
                if reader.answer.finish_reason is None and reader.error is None:
                    raise NoAnswer("the answer broke off")
            return reader.answer if reader.error is None else _to_rejection(reader.error)
        finally:
            # Closing the connection also ends the generation on the engine.
            response.release() if response.content.at_eof() else response.close()

    # ---- other sources -----------------------------------------------------------------------------------------------

    async def reported(self, lookups: tuple[Lookup, ...]) -> bool | None:
        """What the engine reports about the model; None if it reports nothing."""
        value = await self._documents.look_up(lookups, self.model, self._model_index)
        return value if isinstance(value, bool) else None

    async def render(self, **fields: Any) -> str | Rejection | None:
        """The prompt that a request becomes, or why the template rejects it; None if the engine does not show prompts. Nothing
        is generated for it, so it does not wait for an idle engine."""
        template = self.dialect.template
        if template is None or not self._is_rendered(fields):
            return None
        body = msgspec.json.encode({"model": self.model, "messages": HELLO, **fields})
        if body not in self._prompts:
            self._prompts[body] = await self._fetch_prompt(template, body)
        return self._prompts[body]

    def _is_rendered(self, fields: Body) -> bool:
        """Whether what the engine does with these fields is seen in the prompt."""
        template = self.dialect.template
        return template is not None and (template.reads_all_fields or fields.keys() <= TEMPLATE_FIELDS)

    async def _fetch_prompt(self, template: Template, body: bytes) -> str | Rejection | None:
        prompt = await self._fetch(template.path, body, template.prompt_key)
        if isinstance(prompt, list) and template.detokenizer is not None:
            tokens = msgspec.json.encode({"model": self.model, "tokens": prompt})
            prompt = await self._fetch(template.detokenizer.path, tokens, template.detokenizer.text_key)
        return prompt if isinstance(prompt, str | Rejection) else None

    async def _fetch(self, path: str, body: bytes, key: str) -> Any:
        """The value at the key of the answer; None if there is none."""
        try:
            async with asyncio.timeout(RENDER_TIME_LIMIT), ours(self.engine.root):
                response = await self.engine.post(path, body, CLOSE_CONNECTION)
                data = await read_document(response)
        except (TimeoutError, ApiError):
            return None
        if response.status in NO_SUCH_ROUTE:
            return None
        if response.status != 200:
            return Rejection(http_answer_to_failure(response.status, data).message)
        try:
            return follow(msgspec.json.decode(data), key)
        except UNREADABLE:
            return None

    async def renders(self) -> bool:
        """Whether the engine shows prompts. A template that rejects the plainest one shows nothing by its rejections."""
        return isinstance(await self.render(), str)

    async def rendered_prompt(self, **fields: Any) -> str | None:
        """The prompt that a request becomes; None if the engine does not show it, or its template fails."""
        prompt = await self.render(**fields)
        return prompt if isinstance(prompt, str) else None

    async def rejection(self, **fields: Any) -> Rejection | None:
        """Why a request is rejected; None if it is accepted. Where prompts are rendered, nothing is generated for it."""
        if not self._is_rendered(fields) or not await self.renders():
            # Some engines answer an error of the chat template with a 500, and no words.
            answer = await self.ask_twice(**fields)
            return answer if isinstance(answer, Rejection) else None
        prompt = await self.render(**fields)
        if prompt is None:
            raise NoAnswer("the engine did not render a prompt")
        return prompt if isinstance(prompt, Rejection) else None

    async def template_text(self) -> str | None:
        """The text of the chat template, as the engine shows it or as the settings name it."""
        text = await self._documents.look_up(self.dialect.template_text, self.model, self._model_index)
        return text if isinstance(text, str) and text else self.engine.chat_template

    async def is_in_prompt(self, mark: str, long: Body, short: Body) -> bool | None:
        """Whether a text gets into the prompt: its mark is in the rendered prompt, or a longer text makes a longer prompt."""
        if await self.renders():
            prompt = await self.rendered_prompt(**long)
            return None if prompt is None else mark in prompt
        is_longer = await self._is_longer(long, short)
        return is_longer if is_longer is not False or await self.counts_text() else None

    async def counts_text(self) -> bool:
        """Whether the engine counts the tokens of a prompt at all. Some servers report the same number for every one, which
        says nothing about what gets into it."""
        return await self._is_longer(LONG_MESSAGE, SHORT_MESSAGE) is True

    async def _is_longer(self, long: Body, short: Body) -> bool | None:
        """None: it is not known."""
        counts = [
            answer.usage.input_tokens
            for answer in (await self.ask_twice(**long), await self.ask_twice(**short))
            if isinstance(answer, Answer) and answer.usage is not None and answer.usage.input_tokens
        ]
        if len(counts) < 2 or counts[0] < counts[1]:
            return None
        return counts[0] > counts[1]
