"""The questions with their ten tools, asked once at temperature 0."""

import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from bench.models.questions import TOOLS, Question
from bench.models.subjects import Running

Calls = list[tuple[str, Mapping[str, Any]]]
TIMEOUT = aiohttp.ClientTimeout(total=120)
# Long enough for every right answer; a model that repeats itself ends here.
MOST_TOKENS = 256


class QuestionRun(Struct, frozen=True):
    text: str
    tool: str | None
    is_right: bool
    seconds: float
    # What was called instead, or why there was no answer.
    found: str


async def ask(question: Question, running: Running, session: aiohttp.ClientSession) -> QuestionRun:
    began = time.monotonic()
    try:
        calls, found = await (_ask_engine if running.subject.is_engine else _ask_gateway)(question, running, session)
    except (aiohttp.ClientError, TimeoutError) as failed:
        calls, found = None, str(failed) or "no answer in time"
    is_right = calls is not None and question.is_answered_by(calls)
    return QuestionRun(question.text, question.tool, is_right, time.monotonic() - began, found)


async def _ask_gateway(question: Question, running: Running, session: aiohttp.ClientSession) -> tuple[Calls | None, str]:
    body = {"input": question.text, "tools": TOOLS, "max_output_tokens": MOST_TOKENS, "store": False}
    status, answer = await _post(session, running, "/v1/responses", body)
    if status != 200 or answer["status"] == "failed":
        return None, str(answer)[:500]
    items = [item for item in answer["output"] if item["type"] == "function_call"]
    return _calls(items), str(items or answer["output"])


async def _ask_engine(question: Question, running: Running, session: aiohttp.ClientSession) -> tuple[Calls | None, str]:
    functions = [
        {"type": "function", "function": {key: tool[key] for key in ("name", "description", "parameters")}} for tool in TOOLS
    ]
    body = {"messages": [{"role": "user", "content": question.text}], "tools": functions, "max_tokens": MOST_TOKENS}
    status, answer = await _post(session, running, "/v1/chat/completions", body)
    if status != 200:
        return None, str(answer)[:500]
    message = answer["choices"][0]["message"]
    return _calls([call["function"] for call in message.get("tool_calls") or []]), str(message)


async def _post(session: aiohttp.ClientSession, running: Running, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    target = running.responses
    data = msgspec.json.encode({"model": running.model, "temperature": 0, **body})
    headers = {"Authorization": f"Bearer {target.key}", "Content-Type": "application/json"}
    async with session.post(target.url + path, data=data, headers=headers, timeout=TIMEOUT) as answer:
        return answer.status, msgspec.json.decode(await answer.read())


def _calls(functions: list[dict[str, Any]]) -> Calls:
    return [(function["name"], _arguments(function["arguments"])) for function in functions]


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
