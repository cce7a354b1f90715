"""Conversations and questions with function tools: asked of the gateway's Responses API, or of the engine's own endpoint."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import msgspec

from antiphon.core.toolbox.examples import AGENT, FUNCTIONS, SEARCHES
from antiphon.core.toolbox.prompt_texts import PROMPT_SENTENCES
from bench.models.conversations import Call, Conversation
from bench.models.questions import Question, Tool
from bench.models.subjects import Running

# Seconds for one answer.
TIMEOUT = 300.0
# Long enough for every right answer; a model that repeats itself ends here.
MOST_TOKENS = 256
# Of one turn. Whoever calls tools for longer gives no answer.
MOST_ANSWERS = 8
# What only the gateway writes: the fixed words of its sentences, and the answers of its examples, as far as they are long
# enough to be nobody else's.
OURS = tuple(
    words.strip()
    for sentence in (*PROMPT_SENTENCES, *(example.says for example in (*AGENT, *FUNCTIONS, *SEARCHES)))
    for words in re.split(r"\{\w+\}|(?<=\.) ", sentence)
    if len(words.strip()) > 24
)


def parroted(words: str) -> list[str]:
    """The sentences of the gateway that an answer has in it."""
    return [each for each in OURS if each in words]


@dataclass(slots=True)
class Answer:
    # Each with its id.
    calls: list[tuple[str, Call]] = field(default_factory=list)
    words: str = ""
    failure: str = ""


class Talk(Protocol):
    """A conversation with a subject."""

    def say(self, text: str) -> None: ...
    def report(self, call_id: str, result: str) -> None: ...
    async def answer(self) -> Answer: ...


def talk_with(running: Running, session: aiohttp.ClientSession, tools: Sequence[Tool], **fields: Any) -> Talk:
    kind = EngineTalk if running.subject.is_engine else GatewayTalk
    return kind(running, session, tools, fields)


class GatewayTalk:
    def __init__(
        self, running: Running, session: aiohttp.ClientSession, tools: Sequence[Tool], fields: Mapping[str, Any]
    ) -> None:
        self._running, self._session = running, session
        self._body = {"tools": tools, "max_output_tokens": MOST_TOKENS, "store": False, **fields}
        self._items: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        self._items.append({"role": "user", "content": text})

    def report(self, call_id: str, result: str) -> None:
        self._items.append({"type": "function_call_output", "call_id": call_id, "output": result})

    async def answer(self) -> Answer:
        status, answer = await _post(self._session, self._running, "/v1/responses", {**self._body, "input": self._items})
        if status != 200 or answer["status"] == "failed":
            return Answer(failure=str(answer)[:500])
        self._items += answer["output"]
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        texts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        words = "\n".join(part.get("text", "") for part in texts)
        return Answer([(call["call_id"], (call["name"], arguments_of(call))) for call in calls], words)


class EngineTalk:
    def __init__(
        self, running: Running, session: aiohttp.ClientSession, tools: Sequence[Tool], fields: Mapping[str, Any]
    ) -> None:
        self._running, self._session = running, session
        members = ("name", "description", "parameters")
        functions = [{"type": "function", "function": {name: tool[name] for name in members}} for tool in tools]
        self._body = {"tools": functions, "max_tokens": MOST_TOKENS, **fields}
        self._messages: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def report(self, call_id: str, result: str) -> None:
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    async def answer(self) -> Answer:
        body = {**self._body, "messages": self._messages}
        status, answer = await _post(self._session, self._running, "/v1/chat/completions", body)
        if status != 200:
            return Answer(failure=str(answer)[:500])
        message = answer["choices"][0]["message"]
        self._messages.append({name: value for name, value in message.items() if name != "reasoning_content"})
        calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or []]
        return Answer([(id, (call["name"], arguments_of(call))) for id, call in calls], message.get("content") or "")


async def _post(session: aiohttp.ClientSession, running: Running, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    target = running.responses
    data = msgspec.json.encode({"model": running.model, **body})
    headers = {"Authorization": f"Bearer {target.key}", "Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT * running.patience)
    try:
        async with session.post(target.url + path, data=data, headers=headers, timeout=timeout) as answer:
            return answer.status, msgspec.json.decode(await answer.read())
    except (aiohttp.ClientError, TimeoutError) as failed:
        return 0, str(failed) or "no answer in time"


def arguments_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(call["arguments"])
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


# ---- questions and conversations -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Talked:
    """What came of a question or a conversation."""

    right: int = 0
    responses: int = 0
    failure: str = ""
    ended: bool = True
    repeated: list[str] = field(default_factory=list)
    parroted: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


async def ask(question: Question, running: Running, session: aiohttp.ClientSession) -> Talked:
    """Once, and always with the most likely words."""
    talked = Talked()
    talk = talk_with(running, session, question.tools, temperature=0)
    talk.say(question.text)
    answer = await talk.answer()
    calls = [call for _, call in answer.calls]
    talked.responses = 1
    talked.right = int(not answer.failure and question.is_answered_by(calls, answer.words))
    talked.failure, talked.parroted = answer.failure, parroted(answer.words)
    talked.found = [_shown(calls, answer.words)]
    return talked


async def converse(conversation: Conversation, running: Running, session: aiohttp.ClientSession) -> Talked:
    """With the model's own sampling."""
    talked, world = Talked(), conversation.world
    talk = talk_with(running, session, world.tools)
    made: list[Call] = []
    for turn in conversation.turns:
        talk.say(turn.prompt)
        calls, words = await _turn(talk, conversation, talked)
        talked.right += not talked.failure and turn.is_right(calls, words, world.acts, made)
        talked.parroted += parroted(words)
        talked.repeated += [
            name for at, (name, given) in enumerate(calls) if name in world.acts and (name, given) in [*made, *calls[:at]]
        ]
        made += calls
        talked.found.append(_shown(calls, words))
    return talked


async def _turn(talk: Talk, conversation: Conversation, talked: Talked) -> tuple[list[Call], str]:
    """The calls of one turn, and the words at its end."""
    calls: list[Call] = []
    for _ in range(MOST_ANSWERS):
        answer = await talk.answer()
        talked.responses += 1
        if answer.failure:
            talked.failure = answer.failure
            return calls, ""
        if not answer.calls:
            return calls, answer.words
        for call_id, call in answer.calls:
            calls.append(call)
            talk.report(call_id, conversation.world.result_of(call))
    talked.ended = False
    return calls, ""


def _shown(calls: Sequence[Call], words: str) -> str:
    made = (f"{name}({', '.join(f'{each}={value!r}' for each, value in given.items())})" for name, given in calls)
    return " → ".join([*made, words.strip()])[:600]
