"""Sends generated requests and broken engine streams to a gateway. Any of them that is not answered as it should is written
to a file, as small as it still fails. `--repeat FILE` runs such cases again."""

import argparse
import asyncio
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path

import aiohttp
import msgspec

from fuzz.cases import Case, request_cases, smaller, stream_cases
from fuzz.target import Target
from fuzz.trial import FuzzEngine, Trial

# A new gateway after so many cases: what one has stored goes with it.
CASES_PER_GATEWAY = 5000
AT_ONCE = 32
# The kinds of engines, in turn: what is made of a request depends on what its engine can do.
ENGINES = ("mock", "llamacpp", "vllm")
# A failing case is made smaller in at most so many attempts, and only the first ones are.
ATTEMPTS_TO_SHRINK = 200
SHRUNK = 10
MOST_FAILURES = 100
FAILURES = Path("fuzz-failures.json")


class Failure(msgspec.Struct):
    case: Case
    reason: str
    # The bytes of the case, for people.
    shown: str = ""


def all_cases(requests: int, streams: int, seed: int) -> Iterator[list[Case]]:
    """In the parts that one gateway gets."""
    for make, count in ((request_cases, requests), (stream_cases, streams)):
        size = min(CASES_PER_GATEWAY, -(-count // len(ENGINES)) or 1)
        for number, done in enumerate(range(0, count, size)):
            yield list(make(min(size, count - done), seed + number))


@asynccontextmanager
async def trial(kind: str = "mock") -> AsyncIterator[Trial]:
    engine = FuzzEngine(kind)
    await engine.start()
    target = Target(engine.url)
    await asyncio.to_thread(target.start)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as client:
            yield Trial(target, engine, client)
    finally:
        await asyncio.to_thread(target.stop)
        await engine.stop()


async def try_all(parts: Iterator[list[Case]]) -> tuple[Counter[str], list[Failure]]:
    tried: Counter[str] = Counter()
    failures: list[Failure] = []
    for part, kind in zip(parts, cycle(ENGINES), strict=False):
        async with trial(kind) as running:
            for cases in _batches(part):
                verdicts = await running.run(cases)
                tried.update(case.kind for case in cases)
                for case, reason in zip(cases, verdicts, strict=True):
                    if reason is not None:
                        failures.append(await _shrink(running, Failure(case, reason), len(failures)))
                        print(f"\nfailed: {failures[-1].reason[:2000]}", file=sys.stderr)
                if len(failures) >= MOST_FAILURES:
                    return tried, failures
        ends = ", ".join(f"{count} {name}" for name, count in running.outcomes.most_common())
        print(
            f"{tried['request']} requests, {tried['stream']} streams, {len(failures)} failures; with {kind}: {ends}", flush=True
        )
    return tried, failures


def _batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    for at in range(0, len(cases), AT_ONCE):
        yield list(cases[at : at + AT_ONCE])


async def _shrink(running: Trial, failure: Failure, number: int) -> Failure:
    """A smaller case that fails in the same way, if there is one: by the first word of the reason."""
    attempts = ATTEMPTS_TO_SHRINK if number < SHRUNK else 0
    candidates = smaller(failure.case)
    while attempts and (candidate := next(candidates, None)) is not None:
        attempts -= 1
        reason = await running.run_alone(candidate)
        if reason is not None and reason.split()[:3] == failure.reason.split()[:3]:
            failure = Failure(candidate, reason)
            candidates = smaller(candidate)
    return failure


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="default: another one each time")
    parser.add_argument("--requests", type=int, default=100_000, metavar="N", help="default 100000")
    parser.add_argument("--streams", type=int, default=20_000, metavar="N", help="default 20000")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="run the cases of this file instead")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    print(f"seed {chosen.seed}", flush=True)
    began = time.monotonic()
    if chosen.repeat is not None:
        parts = iter([[each.case for each in msgspec.json.decode(chosen.repeat.read_bytes(), type=list[Failure])]])
    else:
        parts = all_cases(chosen.requests, chosen.streams, chosen.seed)
    tried, failures = asyncio.run(try_all(parts))
    took = time.monotonic() - began
    print(f"{tried['request']} requests and {tried['stream']} streams in {took:.0f} s: {len(failures)} failures")
    if failures:
        for each in failures:
            each.shown = (each.case.engine or each.case.request).decode(errors="backslashreplace")
        FAILURES.write_bytes(msgspec.json.format(msgspec.json.encode(failures), indent=1))
        print(f"They are in {FAILURES}. Run them again with: --repeat {FAILURES}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
