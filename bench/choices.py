"""How often an engine does what a request requires, asked directly and through Antiphon: valid calls, and valid answers.

Only structure counts: that a call was made, of a tool that was allowed, with arguments
that follow their schema; that an answer follows its schema.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import msgspec
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.core.checks.schemas import read
from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import find_weights, template_for
from antiphon.settings.settings import Settings, models_directory
from bench.page import keep
from bench.processes import BenchFailed, free_port, running
from bench.varied import KINDS, Body, Case, Kind, Subject, varied

# A model whose tokens are single bytes needs more of them.
BYTE_BY_BYTE = 2048
LIMIT = aiohttp.ClientTimeout(total=300)
Judge = Callable[[Case, bytes], str | None]
HEAD = """\
| model | demand | requests | llama.cpp itself | through Antiphon |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Row:
    model: str
    kind: Kind
    count: int
    directly: int
    through: int
    # What went wrong through Antiphon, for the reader of the output.
    failures: tuple[str, ...]

    def __str__(self) -> str:
        shares = [f"{met} ({100 * met / self.count:.0f} %)" for met in (self.directly, self.through)]
        return f"| {self.model} | {self.kind} | {self.count} | {shares[0]} | {shares[1]} |"


async def measure(kind: Kind, subject: Subject, engine: str, gateway: str, count: int, *, directly: bool = True) -> Row:
    """`engine` and `gateway` are their addresses. Without `directly` only the gateway is asked."""
    cases = list(varied(kind, subject, count))
    # An engine may close a connection that was kept at the very moment at which it is used again.
    async with aiohttp.ClientSession(timeout=LIMIT, connector=aiohttp.TCPConnector(force_close=True)) as session:
        through = await _all(session, gateway + "/v1/responses", [(case, case.responses) for case in cases], _fault)
        raw: Sequence[str | None] = [""] * count
        if directly:
            raw = await _all(session, engine + "/v1/chat/completions", [(case, case.chat) for case in cases], _chat_fault)
    failures = tuple(f"{kind} {at}: {fault}" for at, fault in enumerate(through) if fault is not None)
    return Row(subject.model, kind, count, raw.count(None), through.count(None), failures)


async def measure_chat(kind: Kind, subject: Subject, url: str, count: int) -> list[str]:
    """What goes wrong with chat requests that are sent to this address, which all have room for a whole call."""
    asked = [(case, {**case.chat, "max_tokens": subject.tokens}) for case in varied(kind, subject, count)]
    async with aiohttp.ClientSession(timeout=LIMIT, connector=aiohttp.TCPConnector(force_close=True)) as session:
        faults = await _all(session, url + "/v1/chat/completions", asked, _chat_fault)
    return [f"{kind} {at}: {fault}" for at, fault in enumerate(faults) if fault is not None]


async def _all(session: aiohttp.ClientSession, url: str, asked: list[tuple[Case, Body]], judge: Judge) -> list[str | None]:
    """One after another: on a machine with few cores, engines take turns worse than requests do."""
    faults = []
    for case, body in asked:
        async with session.post(url, json=body) as answer:
            data = await answer.read()
        faults.append(judge(case, data) if answer.status == 200 else f"HTTP {answer.status}: {data[:300]!r}")
    return faults


def _fault(case: Case, data: bytes) -> str | None:
    """Why a response is not what was required; None if it is."""
    response = list(_events(data))[-1]["response"] if case.responses["stream"] else msgspec.json.decode(data)
    if response["status"] != "completed":
        return f"{response['status']}: {response['error'] or response['incomplete_details']} {str(response['output'])[:300]}"
    items = response["output"]
    calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    return _judged(case, calls, "".join(texts))


def _chat_fault(case: Case, data: bytes) -> str | None:
    if not case.chat["stream"]:
        message = msgspec.json.decode(data)["choices"][0]["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
        return _judged(case, calls, message.get("content") or "")
    text, made = "", dict[int, list[str]]()
    for chunk in _events(data):
        for choice in chunk.get("choices", ()):
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                whole = made.setdefault(call["index"], ["", ""])
                whole[0] += call["function"].get("name") or ""
                whole[1] += call["function"].get("arguments") or ""
    return _judged(case, [(name, arguments) for name, arguments in made.values()], text)


def _judged(case: Case, calls: list[tuple[str, str]], text: str) -> str | None:
    if case.schema is not None:
        return _objection(case.schema, text)
    if not calls:
        return f"no call, but {text[:200]!r}"
    for name, arguments in calls:
        if name not in case.callable:
            return f"a call of {name}"
        if fault := _objection(case.callable[name], arguments):
            return f"{name}: {fault}"
    return None


def _objection(schema: Body, text: str) -> str | None:
    try:
        jsonschema_rs.validate(schema, read(text))
    except (msgspec.DecodeError, ValueError) as wrong:
        return f"{str(wrong).splitlines()[0]} in {text[:200]!r}"
    return None


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            yield msgspec.json.decode(line[6:])


# ---- the run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served:
    subject: Subject
    path: Path
    template: str | None


async def served(folder: Path) -> list[Served]:
    """SmolLM2, fetched if need be, and random weights."""
    smollm2 = await find_weights("smollm2", models_directory(Settings()))
    tiny = write_tiny_model(folder / "random-weights.gguf", context=16384)
    return [
        Served(Subject("SmolLM2-135M"), smollm2.path, template_for(smollm2.header)),
        Served(Subject("random weights", BYTE_BY_BYTE), tiny, template_for(read_header(tiny))),
    ]


def rows(served: Served, count: int, folder: Path) -> Iterator[Row]:
    port = free_port()
    with running_llamacpp(served.path, template=served.template, context=8192, alias=served.subject.model, threads=2) as engine:
        command = [sys.executable, "-m", "antiphon", "serve", "--port", str(port), "--upstream", engine]
        with running("antiphon", command, port, "/ready", folder):
            for kind in KINDS:
                print(f"{served.subject.model}: {kind} …", file=sys.stderr)
                yield asyncio.run(measure(kind, served.subject, engine, f"http://127.0.0.1:{port}", count))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.choices", description=__doc__)
    parser.add_argument("--requests", type=int, default=50, metavar="N", help="of each kind; default 50")
    count = parser.parse_args().requests
    try:
        with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
            found = [row for each in asyncio.run(served(Path(folder))) for row in rows(each, count, Path(folder))]
    except (BenchFailed, CannotEmbed) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    table = HEAD + "".join(f"{row}\n" for row in found)
    print(table)
    for failure in (failure for row in found for failure in row.failures):
        print(failure, file=sys.stderr)
    keep("choices", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
