"""How often a Responses endpoint answers as the API says: llama.cpp's own, LiteLLM's and Antiphon's, before the same llama.cpp.

The requests are like those of the public Open Responses suite, without images: a text, instructions, several turns, a tool.
Each is sent twice, whole and streamed. Only the form is judged, so the weights are random.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from conformance.validators import Document, documents
from openai import AsyncOpenAI
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from bench.page import keep
from bench.processes import free_port, running
from bench.subjects import LITELLM, LITELLM_CONF, LITELLM_ENVIRONMENT

Body = dict[str, Any]
Event = dict[str, Any]
# As LITELLM_CONF names it.
MODEL = "bench"
TOKENS = 16
# Random weights, whose tokens are single bytes, take long to end a call.
LONG = 2048
TOOL: Body = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SAID = [
    {"type": "message", "role": "user", "content": "My name is Ada."},
    {"type": "message", "role": "assistant", "content": "Hello Ada."},
    {"type": "message", "role": "user", "content": "What is my name?"},
]
CASES: Sequence[Body] = (
    {"input": "Say hello."},
    {"instructions": "You are a pirate.", "input": "Say hello."},
    {"input": SAID},
    {"input": "How is the weather in Rome?", "tools": [TOOL]},
    {"input": "How is the weather in Rome?", "tools": [TOOL], "tool_choice": "required", "max_output_tokens": LONG},
)
DOCUMENTS = dict(zip(("OpenAI", "Open Responses"), documents(), strict=True))
PACKAGES = {"Antiphon": "antiphon", "llama.cpp (xllamacpp)": "xllamacpp", "the openai SDK": "openai"}
LIMIT = aiohttp.ClientTimeout(total=120)
READ_BY_SDK = "streams that the SDK's `responses.stream()` reads to the end"
CONTINUED = "answers to a `previous_response_id` for which the engine saw the history"
REQUIRED = "answers with the call that was required"
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class Wrong(Exception):
    """What an answer does that the API does not."""


# ---- the judges ------------------------------------------------------------------------------------------------------


def follows(document: Document, response: Body) -> None:
    for violation in document.violations(response, document.routes["POST", "/responses"]["application/json"]):
        raise Wrong(str(violation))


def events_follow(document: Document, events: list[Event]) -> None:
    for event in events:
        schema = document.events.get(event["type"])
        if schema is None:
            raise Wrong(f"an event {event['type']}")
        for violation in document.violations(event, schema):
            raise Wrong(f"{event['type']}: {violation}")


def in_order(events: list[Event]) -> None:
    """Numbered without gaps, one item after the other, one terminal event, which is the last."""
    if [event.get("sequence_number") for event in events] != [*range(len(events))]:
        raise Wrong("the events are not numbered")
    if [event["type"] for event in events if event["type"] in TERMINAL] != [events[-1]["type"]]:
        raise Wrong("there is not one terminal event at the end")
    begun, ended = 0, 0
    for event in events:
        if event["type"] == "response.output_item.added":
            if begun != ended or event.get("output_index") != begun:
                raise Wrong("an item begins within another one, or has no index")
            begun += 1
        elif event["type"] == "response.output_item.done":
            ended += 1
            if ended != begun:
                raise Wrong("an item ends that has not begun")
        elif event["type"].count(".") > 1 and begun == ended:
            raise Wrong(f"{event['type']} outside of an item")
    if begun != ended:
        raise Wrong("an item has no end")


def calls(response: Body) -> None:
    if not any(item["type"] == "function_call" and item["name"] == TOOL["name"] for item in response["output"]):
        raise Wrong("no call")


# ---- one endpoint ----------------------------------------------------------------------------------------------------


def events_of(data: bytes) -> list[Event]:
    lines = (line.removeprefix("data: ") for line in data.decode().splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


class Endpoint:
    """One that is asked, and what was found: check → for each answer None, or what was wrong with it."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/v1"
        self.found: dict[str, list[str | None]] = {}

    async def ask(self) -> None:
        async with (
            aiohttp.ClientSession(timeout=LIMIT) as session,
            AsyncOpenAI(base_url=self._url, api_key="any", max_retries=0) as sdk,
        ):
            for case in CASES:
                body = {"model": MODEL, "max_output_tokens": TOKENS, **case}
                whole = await self._answer(session, body)
                events = await self._events(session, body)
                for name, document in DOCUMENTS.items():
                    self._judge(f"whole answers that follow the schemas of {name}", follows, document, whole)
                    self._judge(f"streams that follow the schemas of {name}", events_follow, document, events)
                self._judge("streams whose events are numbered and in order", in_order, events)
                if case.get("tool_choice") == "required":
                    self._judge(REQUIRED, calls, whole)
                    self._judge(REQUIRED, calls, events[-1]["response"])
                await self._sdk_reads(sdk, body)
                await self._continues(session, body)

    async def _answer(self, session: aiohttp.ClientSession, body: Body) -> Body:
        async with session.post(f"{self._url}/responses", json=body) as answer:
            return await answer.json() if answer.ok else {"status": answer.status, "output": []}

    async def _events(self, session: aiohttp.ClientSession, body: Body) -> list[Event]:
        async with session.post(f"{self._url}/responses", json={**body, "stream": True}) as answer:
            lines = (line.removeprefix("data: ") for line in (await answer.text()).splitlines() if line.startswith("data: "))
            events = [json.loads(line) for line in lines if line != "[DONE]"]
        return events if events and "response" in events[-1] else [{"type": "nothing", "response": {"output": []}}]

    async def _sdk_reads(self, sdk: AsyncOpenAI, body: Body) -> None:
        try:
            async with sdk.responses.stream(**body) as stream:
                async for _ in stream:
                    pass
        except Exception as failed:  # whatever the SDK stumbles over
            self._note(READ_BY_SDK, f"{type(failed).__name__}: {failed}")
        else:
            self._note(READ_BY_SDK, None)

    async def _continues(self, session: aiohttp.ClientSession, body: Body) -> None:
        """Only what is accepted and answered: random weights remember nothing."""
        short = {"model": MODEL, "max_output_tokens": TOKENS, "input": "Go on."}
        before = await self._answer(session, {"model": MODEL, "max_output_tokens": TOKENS, "input": body["input"]})
        answered = await self._answer(session, {**short, "previous_response_id": before.get("id")})
        alone = await self._answer(session, short)
        seen, least = (each.get("usage", {}).get("input_tokens", 0) for each in (answered, alone))
        self._note(CONTINUED, None if seen > least else "the engine did not see the history")

    def _judge(self, check: str, judge: Callable[..., None], *arguments: Any) -> None:
        try:
            judge(*arguments)
        except Wrong as wrong:
            self._note(check, str(wrong))
        else:
            self._note(check, None)

    def _note(self, check: str, wrong: str | None) -> None:
        self.found.setdefault(check, []).append(wrong)


# ---- the run ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def antiphon(engine: str, folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--port", str(port), "--upstream", engine]
    with running("antiphon", command, port, "/ready", folder):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def litellm(engine: str, folder: Path) -> Iterator[str]:
    port, conf = free_port(), folder / "litellm.yaml"
    conf.write_text(LITELLM_CONF.format(engine=urlsplit(engine).port))
    command = [str(LITELLM), "--config", str(conf), "--host", "127.0.0.1", "--port", str(port)]
    with running("litellm", command, port, "/health/liveliness", folder, environment=LITELLM_ENVIRONMENT):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def itself(engine: str, folder: Path) -> Iterator[str]:
    yield engine


SUBJECTS = {"llama.cpp itself": itself, "LiteLLM": litellm, "Antiphon": antiphon}


def measured(folder: Path) -> dict[str, Endpoint]:
    weights = write_tiny_model(folder / "random-weights.gguf", context=16384)
    with running_llamacpp(weights, alias=MODEL, context=8192) as engine:
        found = {}
        for name, subject in SUBJECTS.items():
            with subject(engine, folder) as url:
                found[name] = Endpoint(url)
                asyncio.run(found[name].ask())
        return found


def table(found: Mapping[str, Endpoint]) -> str:
    lines = [f"| | {' | '.join(found)} |", f"| --- |{' --- |' * len(found)}"]
    for check in next(iter(found.values())).found:
        counts = [endpoint.found[check] for endpoint in found.values()]
        lines.append(f"| {check} | {' | '.join(f'{each.count(None)} of {len(each)}' for each in counts)} |")
    return "\n".join([*lines, "", f"Versions: {versions()}.", ""])


def versions() -> str:
    script = "import importlib.metadata as m; print(m.version('litellm'))"
    theirs = subprocess.run(
        [LITELLM.with_name("python"), "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    own = [f"{name} {importlib.metadata.version(package)}" for name, package in PACKAGES.items()]
    return ", ".join([*own, f"LiteLLM {theirs}"])


def main() -> None:
    if not LITELLM.exists():
        sys.exit("bench: LiteLLM is not installed: `make bench-parts` does that")
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        found = measured(Path(folder))
    for name, endpoint in found.items():
        for check, wrongs in endpoint.found.items():
            for wrong in filter(None, wrongs):
                print(f"{name}: {check}: {wrong}", file=sys.stderr)
    print(table(found))
    keep("endpoints", table(found))


if __name__ == "__main__":
    main()
