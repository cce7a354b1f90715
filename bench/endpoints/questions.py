"""The questions with function tools of `bench/models/questions.py`, asked of each API of each subject."""

import asyncio
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench.endpoints.results import MOST_SHOWN, Finding, Results
from bench.endpoints.subjects import SUBJECTS, Endpoint, Engine, engine_at, setup, weights
from bench.models.questions import ALL_QUESTIONS, Calls, Question
from bench.models.talks import MOST_TOKENS, arguments_of

Body = dict[str, Any]
PART = "questions"
# The kinds of questions, as the rows of a table.
KINDS = {"one call": "one call", "two calls": "two calls", "in words": "answered in words"}
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer any", "x-api-key": "any"}
HEADERS |= {"anthropic-version": "2023-06-01"}
CONTEXT = 8192
THREADS = os.cpu_count() or 1


class Answer(msgspec.Struct):
    calls: Calls
    words: str


@dataclass(frozen=True, slots=True)
class Api:
    """How a question is asked, and what the answer says."""

    title: str
    path: str
    body: Callable[[Question], Body]
    read: Callable[[Body], Answer]


def _mixed(questions: Sequence[Question]) -> list[Question]:
    """Each kind spread evenly, so that a run that was stopped has asked some of each."""
    places: dict[str, float] = {}
    for kind in KINDS:
        own = [each.text for each in questions if each.kind == kind]
        places |= {text: at / len(own) for at, text in enumerate(own)}
    return sorted(questions, key=lambda each: places[each.text])


# Those that nothing was tried on.
QUESTIONS = _mixed([each for each in ALL_QUESTIONS if each.half == "final"])


# ---- Responses -------------------------------------------------------------------------------------------------------


def _to_response(question: Question) -> Body:
    return {"input": question.text, "tools": question.tools, "max_output_tokens": MOST_TOKENS, "store": False}


def _of_response(answer: Body) -> Answer:
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    return Answer([(call["name"], arguments_of(call)) for call in calls], "\n".join(part.get("text", "") for part in parts))


# ---- Messages --------------------------------------------------------------------------------------------------------


def _to_message(question: Question) -> Body:
    tools = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        for tool in question.tools
    ]
    return {"messages": [{"role": "user", "content": question.text}], "tools": tools, "max_tokens": MOST_TOKENS}


def _of_message(answer: Body) -> Answer:
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    texts = [block["text"] for block in answer["content"] if block["type"] == "text"]
    return Answer([(call["name"], call["input"]) for call in calls], "\n".join(texts))


# ---- Chat Completions ------------------------------------------------------------------------------------------------


def _to_completion(question: Question) -> Body:
    members = ("name", "description", "parameters")
    functions = [{"type": "function", "function": {name: tool[name] for name in members}} for tool in question.tools]
    return {"messages": [{"role": "user", "content": question.text}], "tools": functions, "max_tokens": MOST_TOKENS}


def _of_completion(answer: Body) -> Answer:
    message = answer["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return Answer([(call["name"], arguments_of(call)) for call in calls], message.get("content") or "")


APIS: Mapping[str, Api] = {
    "responses": Api("Responses", "/v1/responses", _to_response, _of_response),
    "messages": Api("Messages", "/v1/messages", _to_message, _of_message),
    "chat": Api("Chat Completions", "/v1/chat/completions", _to_completion, _of_completion),
}


# ---- the run ---------------------------------------------------------------------------------------------------------


async def ask(session: aiohttp.ClientSession, endpoint: Endpoint, api: Api, question: Question) -> str | None:
    """Once, with the most likely words. None: it was answered rightly; otherwise what came instead. That there is no answer in
    time says something of the machine, and nothing of the endpoint: it ends the run."""
    body = {"model": endpoint.model, "temperature": 0, **api.body(question)}
    try:
        async with session.post(endpoint.url + api.path, data=msgspec.json.encode(body), headers=HEADERS) as answer:
            data = await answer.read()
            if answer.status != 200:
                return f"HTTP {answer.status}: {data.decode(errors='replace')}"
        found = api.read(msgspec.json.decode(data))
    except (msgspec.DecodeError, KeyError, TypeError) as unreadable:
        return f"{type(unreadable).__name__}: {unreadable}"
    if question.is_answered_by(found.calls, found.words):
        return None
    return f"{[(name, dict(given)) for name, given in found.calls]} {found.words}"


def left(results: Results, subject: str) -> list[tuple[str, Question]]:
    """Names of APIs and questions that the results have not got yet."""
    every = [(api, question) for question in QUESTIONS for api in APIS]
    return [(api, question) for api, question in every if (PART, api, subject, question.text) not in results.findings]


async def ask_all(endpoint: Endpoint, subject: str, results: Results, *, jobs: int = 1, limit: float = 600) -> None:
    """All that are left, `jobs` of them at the same time."""
    waiting = left(results, subject)

    async def work() -> None:
        while waiting:
            name, question = waiting.pop(0)
            wrong = await ask(session, endpoint, APIS[name], question)
            results.add(Finding(PART, name, subject, question.text, int(wrong is None), wrong=(wrong or "")[:MOST_SHOWN]))
            print(f"{subject:<10}{name:<10}{'right' if wrong is None else 'WRONG'}  {question.text}", file=sys.stderr)

    async with AsyncExitStack() as opened:
        timeout = aiohttp.ClientTimeout(total=limit)
        session = await opened.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        workers = await opened.enter_async_context(asyncio.TaskGroup())
        for _ in range(jobs):
            workers.create_task(work())


async def measure(chosen: Namespace, results: Results) -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        async with engine_of(chosen) as engine:
            for name in chosen.subjects:
                if not left(results, name):
                    continue
                async with SUBJECTS[name].start(engine, Path(folder)) as endpoint:
                    results.add(setup(PART, SUBJECTS[name], engine))
                    await ask_all(endpoint, name, results, jobs=chosen.jobs)


@asynccontextmanager
async def engine_of(chosen: Namespace) -> AsyncIterator[Engine]:
    if chosen.engine is not None:
        yield await engine_at(chosen.engine.rstrip("/"))
        return
    # It is a part of the tests, which where an engine runs elsewhere nobody needs.
    from support.llamacpp import running_llamacpp

    with running_llamacpp(await weights(chosen.model), context=CONTEXT, threads=THREADS) as url:
        yield await engine_at(url)


def counts(results: Results, api: str, subject: str, kind: str) -> tuple[int, int]:
    """How many questions of this kind were answered rightly, and how many were asked."""
    keys = ((PART, api, subject, each.text) for each in QUESTIONS if each.kind == kind)
    found = [results.findings[key] for key in keys if key in results.findings]
    return sum(each.right for each in found), len(found)
