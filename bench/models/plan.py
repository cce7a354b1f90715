"""What is measured, in which order, and by how many gateways at the same time."""

import asyncio
import os
import platform
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from antiphon.engines.embedded.weights import alias_of
from bench.models.codex_runs import TaskRun, run_task
from bench.models.conversations import CONVERSATIONS, Conversation
from bench.models.judges import Half, Task
from bench.models.questions import ALL_QUESTIONS, Question
from bench.models.results import Part, Run, append_result, read_results
from bench.models.subjects import SUBJECTS, OutsideEngine, Running, outside_engine, running
from bench.models.talks import Talked, ask, converse, parroted
from bench.models.tasks import TASKS
from bench.models.watcher import Watcher, long_session, watching

# The first prompt is read whole. What it has in common with later ones is then remembered by the engine.
WARM_UP = Task(
    "warm up", "warm", "tuning", "Create a file named warm.txt that contains the word: warm",
    lambda outcome: outcome.has("warm.txt"), limit=900.0,
)  # fmt: skip
LOGS = "logs"
MOST_FOUND = 3000


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to do once."""

    part: Part
    what: Task | Conversation | Question
    number: int

    @property
    def half(self) -> Half:
        return self.what.world.half if isinstance(self.what, Conversation) else self.what.half

    @property
    def kind(self) -> str:
        return self.what.world.name if isinstance(self.what, Conversation) else self.what.kind

    @property
    def name(self) -> str:
        return name_of(self.what)

    @property
    def asked(self) -> int:
        return len(self.what.turns) if isinstance(self.what, Conversation) else 1


def name_of(what: Task | Conversation | Question) -> str:
    return what.text if isinstance(what, Question) else what.name


ALL: dict[Part, Sequence[Task | Conversation | Question]] = {
    "tasks": TASKS,
    "conversations": CONVERSATIONS,
    "questions": ALL_QUESTIONS,
}


def names_of(part: Part, half: Half) -> list[str]:
    return [entry.name for entry in (Entry(part, what, 1) for what in ALL[part]) if entry.half == half]


def entries(chosen: Namespace) -> Iterable[Entry]:
    """Questions are asked at temperature 0, so once is enough."""
    for part in chosen.parts:
        for number in range(1, 1 + (1 if part == "questions" else chosen.runs)):
            for entry in (Entry(part, what, number) for what in ALL[part]):
                if entry.half == chosen.half and (
                    chosen.only is None or entry.kind in chosen.only or entry.name in chosen.only
                ):
                    yield entry


def machine(chosen: Namespace, outside: OutsideEngine | None = None) -> str:
    at_once = f", {chosen.jobs} gateways at the same time" if chosen.jobs > 1 else ""
    if outside is not None:
        slots = f"{outside.slots} x {outside.context:,} tokens"
        return f"{chosen.device}, served by one llama.cpp (build {outside.version}, {slots}){at_once}"
    threads = f", {chosen.threads} for each model" if chosen.threads else ""
    return f"{os.cpu_count()} cores{threads} ({platform.machine()}, {platform.system()}){at_once}"


async def measure(chosen: Namespace) -> None:
    """All that an earlier measurement has not done."""
    done = {run.key for run in read_results(chosen.results)}
    outside = await outside_engine(chosen.engine, chosen.jobs) if chosen.engine else None
    for name in chosen.subjects:
        plan: asyncio.Queue[Entry] = asyncio.Queue()
        for entry in entries(chosen):
            if (alias_of(chosen.model), name, entry.part, entry.name, entry.number) not in done:
                plan.put_nowait(entry)
        async with asyncio.TaskGroup() as workers:
            for place in range(min(chosen.jobs, plan.qsize())):
                workers.create_task(_work(name, place, plan, chosen, outside))


async def _work(name: str, place: int, plan: asyncio.Queue[Entry], chosen: Namespace, outside: OutsideEngine | None) -> None:
    async with _workplace(name, place, chosen, outside) as worker:
        while not plan.empty():
            await worker.do(plan.get_nowait())


@asynccontextmanager
async def _workplace(name: str, place: int, chosen: Namespace, outside: OutsideEngine | None) -> AsyncIterator["Worker"]:
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True)))
        subject = await opened.enter_async_context(running(SUBJECTS[name], chosen.model, folder, chosen.patience, outside))
        watcher = await opened.enter_async_context(watching(subject.responses, subject.gateway))
        session = await opened.enter_async_context(long_session())
        yield Worker(subject, watcher, session, place, chosen, machine(chosen, outside))


class Worker:
    """A gateway with a model of its own, and what is done with it, one after another."""

    def __init__(
        self, subject: Running, watcher: Watcher, session: aiohttp.ClientSession, place: int, chosen: Namespace, machine: str
    ) -> None:
        self._subject, self._watcher, self._session = subject, watcher, session
        self._place, self._chosen, self._machine = place, chosen, machine
        self._is_warm = False

    async def do(self, entry: Entry) -> None:
        run = await (self._task(entry, entry.what) if isinstance(entry.what, Task) else self._talk(entry))
        append_result(run, self._chosen.results)
        show(run)

    async def _task(self, entry: Entry, task: Task) -> Run:
        if not self._is_warm:
            self._is_warm = True
            await self._codex(WARM_UP, 0)
        ran = await self._codex(task, entry.number)
        seen = ran.seen
        steps = "\n".join(f"{call[:400]} → {output[:400]}" for call, output in seen.steps)
        return self._run(
            entry,
            right=int(ran.is_done),
            seconds=ran.seconds,
            responses=seen.responses,
            first_action=seen.first_action,
            failure=ran.failure,
            ended=ran.in_time,
            repeated=seen.repeated,
            parroted=parroted(seen.words),
            found=f"{steps[:MOST_FOUND]}\n{seen.words[:MOST_FOUND]}",
        )

    async def _codex(self, task: Task, number: int) -> TaskRun:
        folder = self._chosen.results.parent / LOGS
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{self._subject.subject.name}-{number}-{task.name}.log"
        help, limit = self._subject.subject.help, task.limit * self._chosen.patience
        return await run_task(task, self._watcher, help, limit, log, codex=self._chosen.codex, place=self._place)

    async def _talk(self, entry: Entry) -> Run:
        what = entry.what
        assert not isinstance(what, Task)
        talked: Talked = await (
            converse(what, self._subject, self._session)
            if isinstance(what, Conversation)
            else ask(what, self._subject, self._session)
        )
        return self._run(
            entry,
            right=talked.right,
            seconds=talked.seconds,
            responses=talked.responses,
            failure=talked.failure,
            ended=talked.ended,
            repeated=talked.repeated,
            parroted=talked.parroted,
            found="\n".join(talked.found),
        )

    def _run(self, entry: Entry, **measured: object) -> Run:
        names = {"part": entry.part, "half": entry.half, "kind": entry.kind, "name": entry.name, "number": entry.number}
        # An engine outside may have a name of its own for the model.
        model = alias_of(self._chosen.model)
        subject = {"model": model, "subject": self._subject.subject.name, "machine": self._machine}
        return Run(**subject, **names, asked=entry.asked, **measured)  # type: ignore[arg-type]


def show(run: Run) -> None:
    verdict = "right" if run.is_right else f"{run.right} of {run.asked}" if run.asked > 1 else "WRONG"
    flags = "".join(
        f"  {words}"
        for words, is_so in (("REPEATED", run.repeated), ("PARROTED", run.parroted), (run.failure, run.failure))
        if is_so
    )
    print(f"{run.subject:<7}{run.number} {verdict:<7}{run.seconds:6.1f} s  {run.kind}: {run.name}{flags}", flush=True)
