"""What a request costs in instructions of the gateway's process, from the client's bytes to the client's bytes.

Requests are counted in blocks, on one connection to a gateway that is warm, so its start is in none of them. A row is the
least of its blocks, with the most in brackets: what the gateway does by the clock only adds to a block, and on a busy machine a
block takes longer.
"""

import asyncio
import compileall
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from shape.callgrind import WRAPPER, Instructions, count_run
from shape.client import CHAT, MESSAGES, PASSED, RESPONSES, RESPONSES_WITH_TOOLS, Api, Client, history
from shape.gateway import COMMAND, PYTHON, environment_of, running_gateway
from shape.table import Row
from shape.tree import Tree

TARGET, TARGET_BESIDE = "≤ +3 %", "≤ +15 %"
MILLION, THOUSAND = 1e6, 1e3
BLOCKS = 5
SHORT, LONG = 16, 1016
ITEMS = 200
# What is compared of two APIs.
A_WHOLE, A_STREAM, A_DELTA = FIGURES = "a whole answer", f"a stream of {SHORT} deltas", "one delta"


@dataclass(frozen=True)
class Case:
    """`times` requests are one block. Before the first one, half as many are asked to warm up."""

    what: str
    ask: Callable[[Client], Awaitable[object]]
    times: int


def case_of(what: str, api: Api, deltas: int, times: int = 60) -> Case:
    """`deltas`: 0 for an answer that is not streamed."""
    if deltas:
        return Case(what, lambda client: client.stream(deltas, api), times)
    return Case(what, lambda client: client.whole(api=api), 100)


class ApiCases(NamedTuple):
    """What is asked by one API: a whole answer, a short stream and a long one."""

    whole: Case
    short: Case
    long: Case


def cases_by(name: str, api: Api) -> ApiCases:
    return ApiCases(
        case_of(f"{A_WHOLE}, by {name}", api, 0),
        case_of(f"{A_STREAM}, by {name}", api, SHORT),
        case_of(f"a stream of {LONG} deltas, by {name}", api, LONG, times=2),
    )


WHOLE = Case(A_WHOLE, lambda client: client.whole(), 200)
STREAM = Case(A_STREAM, lambda client: client.stream(SHORT), 120)
LONG_STREAM = Case(f"a stream of {LONG} deltas", lambda client: client.stream(LONG), 10)
HISTORY = Case(f"a whole answer to {ITEMS} items", lambda client: client.whole(history(ITEMS)), 30)
PASSED_ON = case_of(f"a chat stream of {SHORT} deltas that is passed on", PASSED, SHORT)
PASSED_WHOLE = Case("a whole chat answer that is passed on", lambda client: client.passed(), 200)
# What is asked by another API, and the same by the Responses API.
BESIDE = {
    "messages": (cases_by("messages", MESSAGES), cases_by("responses", RESPONSES)),
    "chat completions with a tool": (
        cases_by("chat completions with a tool", CHAT),
        cases_by("responses with a tool", RESPONSES_WITH_TOOLS),
    ),
}
CASES = (
    *(WHOLE, STREAM, LONG_STREAM, HISTORY, PASSED_ON, PASSED_WHOLE),
    *(case for pair in BESIDE.values() for cases in pair for case in cases),
)


@dataclass(frozen=True)
class Costs:
    """`served`: up to the first answer. `blocks`: of each case, the instructions of one request."""

    served: int
    blocks: dict[Case, list[float]]


def rows(tree: Tree) -> Iterator[Row]:
    compileall.compile_dir(tree.source, quiet=1)
    yield from rows_of(asyncio.run(measure(tree)))
    yield _row(f"instructions of `{COMMAND} --version`, millions", [count_version(tree)], MILLION)


def rows_of(costs: Costs) -> Iterator[Row]:
    for case in (WHOLE, STREAM, HISTORY, PASSED_ON, PASSED_WHOLE):
        yield _row(f"instructions of {case.what}, millions", costs.blocks[case], MILLION)
    for name, (cases, same) in BESIDE.items():
        for what, cost, others in zip(FIGURES, figures_of(cases, costs), figures_of(same, costs), strict=True):
            more = cost / others - 1
            found = f"instructions of {what}, by {name}: beside the Responses API's"
            yield Row(found, f"{more:+.1%}", TARGET_BESIDE, 1 + more)
    yield _row(f"instructions of {A_DELTA}, thousands", deltas_of(STREAM, LONG_STREAM, costs), THOUSAND)
    yield _row("instructions from the start to the first answer, millions", [costs.served], MILLION)


def figures_of(cases: ApiCases, costs: Costs) -> tuple[float, float, float]:
    whole, short = (min(costs.blocks[case]) for case in (cases.whole, cases.short))
    return whole, short, min(deltas_of(cases.short, cases.long, costs))


def deltas_of(short: Case, long: Case, costs: Costs) -> list[float]:
    """What one delta costs: by each block of long streams, without what a short one costs."""
    least = min(costs.blocks[short])
    return [(cost - least) / (LONG - SHORT) for cost in costs.blocks[long]]


async def measure(tree: Tree) -> Costs:
    async with running_gateway(tree, wrapper=WRAPPER) as gateway:
        instructions = Instructions(gateway.pid, gateway.folder)
        client = await gateway.connect()
        await client.whole()
        served = await instructions.since_last()
        blocks = {case: [cost async for cost in _blocks(case, client, instructions)] for case in CASES}
        await client.close()
    return Costs(served, blocks)


async def _blocks(case: Case, client: Client, instructions: Instructions) -> AsyncIterator[float]:
    for _ in range(case.times // 2):
        await case.ask(client)
    await instructions.since_last()
    for _ in range(BLOCKS):
        for _ in range(case.times):
            await case.ask(client)
        yield await instructions.since_last() / case.times


def count_version(tree: Tree) -> int:
    with TemporaryDirectory() as folder:
        words = [*PYTHON, "-m", COMMAND, "--version"]
        return count_run(words, Path(folder), {**os.environ, **environment_of(tree)})


def _row(what: str, found: list[float], unit: float) -> Row:
    value = min(found)
    spread = f" (to {_number(max(found) / unit)})" if len(found) > 1 else ""
    return Row(what, f"{_number(value / unit)}{spread}", TARGET, value)


def _number(value: float) -> str:
    """Four digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
