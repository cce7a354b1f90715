"""A conformance suite that others wrote, llm-comply: its tests of each API. The weights are random.

Its tests of the Responses API are those that openresponses.org publishes, without those over WebSockets.
"""

import asyncio
import sys
import tempfile
from argparse import Namespace
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from pathlib import Path

import msgspec
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for
from bench.endpoints.results import MOST_SHOWN, Finding, Results
from bench.endpoints.subjects import LITELLM_MODEL, SUBJECTS, Endpoint, Engine, engine_at, setup
from bench.processes import BenchFailed
from bench.subjects import LITELLM

PART = "suite"
PROGRAM = LITELLM.with_name("llm-comply")
NO_PROGRAM = "llm-comply is not installed: `make bench-endpoints` does that"
VERSION = "0.5.0"
# By API: its name there, and what else it needs.
FORMATS: Mapping[str, tuple[str, ...]] = {
    "responses": ("open-responses",),
    "messages": ("anthropic", "--auth-header", "x-api-key", "--no-bearer", "--header", "anthropic-version:2023-06-01"),
    "chat": ("openai-chat",),
}
# Seconds for one request: a machine that is busy is no fault of an endpoint.
PATIENCE = "300"
CONTEXT = 8192


class Verdict(msgspec.Struct):
    name: str
    status: str
    errors: list[str] = []


class Report(msgspec.Struct):
    results: list[Verdict]


async def run(endpoint: Endpoint, api: str, program: Path = PROGRAM) -> list[Verdict]:
    asked = ["--base-url", f"{endpoint.url}/v1", "--api-key", "any", "--model", endpoint.model]
    process = await asyncio.create_subprocess_exec(
        program, *asked, "--timeout", PATIENCE, "--json", "--format", *FORMATS[api], stdout=PIPE, stderr=PIPE
    )
    output, errors = await process.communicate()
    try:
        # 1: there are tests that failed.
        return msgspec.json.decode(output[output.find(b"{") :], type=Report).results
    except msgspec.DecodeError:
        raise BenchFailed(f"llm-comply has not said what it found:\n{errors.decode(errors='replace')[-1000:]}") from None


def findings(api: str, subject: str, tests: list[Verdict]) -> list[Finding]:
    """Without those that were skipped."""
    return [
        Finding(PART, api, subject, each.name, int(each.status == "passed"), wrong="; ".join(each.errors)[:MOST_SHOWN])
        for each in tests
        if each.status != "skipped"
    ]


async def measure(chosen: Namespace, results: Results) -> None:
    if not PROGRAM.exists():
        raise BenchFailed(NO_PROGRAM)
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        # They end an answer by themselves, which a small model may not.
        weights = write_tiny_model(Path(folder) / "random-weights.gguf", context=2 * CONTEXT)
        template = template_for(read_header(weights))
        with running_llamacpp(weights, alias=LITELLM_MODEL, template=template, context=CONTEXT) as url:
            await _test(await engine_at(url), Path(folder), chosen, results)


async def _test(engine: Engine, folder: Path, chosen: Namespace, results: Results) -> None:
    for name in chosen.subjects:
        async with SUBJECTS[name].start(engine, folder) as endpoint:
            results.add(setup(PART, SUBJECTS[name], engine._replace(model="random weights"), f"llm-comply {VERSION}"))
            for api in FORMATS:
                found = findings(api, name, await run(endpoint, api))
                results.add(*found)
                for each in found:
                    print(f"{name:<10}{api:<10}{each.right}  {each.name} {each.wrong}", file=sys.stderr)
