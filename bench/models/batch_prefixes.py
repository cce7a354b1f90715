"""How much of its prompts a real engine has in its cache when the lines of a batch run in the order of how they begin.

    python -m bench.models.batch_prefixes [--lines 200] [--prefixes 10] [--slots 2] [--earlier 0] [--times]

The lines have long instructions, one of a few, and come in any order. They run once as they are, and once each with a
`prompt_cache_key` of its own: none begins like another then, and they stay in disorder. Each run has a new gateway and a new
engine, which keeps `--earlier` MiB of prompts beside those in its slots. The share of the prompts that was in the cache is the
engine's own count, whatever else the machine does; the time means something on a quiet machine only.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec

from antiphon.engines.embedded import child
from antiphon.engines.embedded.child import PROMPT_CACHE_MIB, Parameters
from bench.models.subjects import ANTIPHON, bare_environment, running_gateway
from bench.processes import BenchFailed, free_port, running

KEY = "bench"
CONTEXT = 4096
SUBJECTS = "rivers mountains birds engines bread maps clocks ships gardens letters".split()
RULE = "Rule {number}: when a question is about {subject}, name the {number}. thing that comes to mind, and say no more of it."
POLL = 0.5


class Plan(NamedTuple):
    model: str
    lines: int
    prefixes: int
    # Of the instructions.
    rules: int
    slots: int
    # Of prompts that the engine keeps beside those in its slots, in MiB.
    earlier: int
    threads: int
    seed: int


class Found(NamedTuple):
    prompt_tokens: int
    cached_tokens: int
    seconds: float

    @property
    def share(self) -> float:
        return self.cached_tokens / self.prompt_tokens


def instructions(plan: Plan) -> list[str]:
    """Different from their first word on."""
    subjects = [f"{SUBJECTS[at % len(SUBJECTS)]} {at}" for at in range(plan.prefixes)]
    return [
        f"{each} are what you know. "
        + "\n".join(RULE.format(number=number, subject=each) for number in range(1, plan.rules + 1))
        for each in subjects
    ]


def lines(plan: Plan, *, in_order: bool) -> Iterator[dict[str, Any]]:
    beginnings = instructions(plan)
    numbers = [*range(plan.lines)]
    random.Random(plan.seed).shuffle(numbers)
    for number in numbers:
        body = {
            "model": plan.model,
            "instructions": beginnings[number % plan.prefixes],
            "input": f"Question {number}: what do you say?",
            "max_output_tokens": 4,
            "temperature": 0,
            "store": False,
        }
        if not in_order:
            body["prompt_cache_key"] = f"line {number}"
        yield {"custom_id": str(number), "method": "POST", "url": "/v1/responses", "body": body}


@contextlib.contextmanager
def running_engine(plan: Plan, folder: Path) -> Iterator[str]:
    """Its URL."""
    pulled = subprocess.run([*ANTIPHON, "pull", plan.model], env=bare_environment(), capture_output=True, text=True)
    if pulled.returncode:
        raise BenchFailed(pulled.stderr)
    port = free_port()
    parameters = Parameters(
        path=pulled.stdout.strip(),
        alias=plan.model,
        port=port,
        key=KEY,
        context=CONTEXT,
        slots=plan.slots,
        gpu_layers=0,
        threads=plan.threads,
        template=None,
        verbose=False,
    )
    given = msgspec.json.encode(parameters).decode()
    command = [sys.executable, "-m", "bench.models.batch_prefixes", "--engine", given, "--earlier", str(plan.earlier)]
    with running("engine", command, port, "/health", folder):
        yield f"http://127.0.0.1:{port}"


def serve_engine(parameters: Parameters, earlier: int) -> None:
    child.PROMPT_CACHE_MIB = earlier
    engine = child.serve(parameters)
    signal.pause()
    del engine


async def run(plan: Plan, folder: Path, *, in_order: bool) -> Found:
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines(plan, in_order=in_order))
    with running_engine(plan, folder) as engine:
        async with (
            running_gateway(["--upstream", engine, "--upstream-key", KEY], "off", folder) as gateway,
            aiohttp.ClientSession(gateway.url, raise_for_status=True) as session,
        ):
            began = time.monotonic()
            batch = await worked_through(session, content)
            seconds = time.monotonic() - began
    if batch["request_counts"] != {"total": plan.lines, "completed": plan.lines, "failed": 0}:
        raise BenchFailed(f"the batch has {batch['status']}: {batch['request_counts']}, {batch['errors']}")
    usage = batch["usage"]
    return Found(usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], seconds)


async def worked_through(session: aiohttp.ClientSession, content: bytes) -> dict[str, Any]:
    form = aiohttp.FormData({"purpose": "batch"})
    form.add_field("file", content, filename="in.jsonl")
    async with session.post("/v1/files", data=form) as answer:
        file = (await answer.json())["id"]
    asked = {"input_file_id": file, "endpoint": "/v1/responses", "completion_window": "24h"}
    async with session.post("/v1/batches", json=asked) as answer:
        batch: dict[str, Any] = await answer.json()
    while batch["status"] not in ("completed", "failed", "expired", "cancelled"):
        await asyncio.sleep(POLL)
        async with session.get(f"/v1/batches/{batch['id']}") as answer:
            batch = await answer.json()
    return batch


def shown(name: str, found: Found, *, times: bool) -> str:
    share = f"{name}: {found.cached_tokens:,} of {found.prompt_tokens:,} tokens were in the cache, {100 * found.share:.1f} %"
    return f"{share}; {found.seconds:.0f} s" if times else share


async def measure(plan: Plan, *, times: bool) -> None:
    for name, in_order in (("in disorder", False), ("in the order of their beginnings", True)):
        with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
            print(shown(name, await run(plan, Path(folder), in_order=in_order), times=times), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    head = __doc__.partition("\n")[0] if __doc__ else ""
    parser = argparse.ArgumentParser(prog="python -m bench.models.batch_prefixes", description=head)
    parser.add_argument("--model", default="smollm2", help="default smollm2")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--prefixes", type=int, default=10)
    parser.add_argument("--rules", type=int, default=24, help="of each prefix, of about 35 tokens each")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--earlier", type=int, default=PROMPT_CACHE_MIB, help="MiB of earlier prompts that the engine keeps")
    parser.add_argument("--threads", type=int, default=-1, help="of the engine; default: one for each core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", type=str.encode, help=argparse.SUPPRESS)
    parser.add_argument("--times", action="store_true", help="on a quiet machine: also how long they take")
    chosen = parser.parse_args(arguments)
    if chosen.engine is not None:
        serve_engine(msgspec.json.decode(chosen.engine, type=Parameters), chosen.earlier)
        return 0
    plan = Plan(*(getattr(chosen, name) for name in Plan._fields))
    try:
        asyncio.run(measure(plan, times=chosen.times))
    except BenchFailed as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
