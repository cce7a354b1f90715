"""When the probes are run: those that generate nothing before an engine is ready, the others in the background."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from antiphon import logs
from antiphon.core.knowledge.knowledge import MOST_MODELS
from antiphon.core.knowledge.template_demands import TOOLS
from antiphon.engines.probes.client import TIME_LIMIT, ProbeClient
from antiphon.engines.probes.findings import Finding, NoAnswer, Verdict
from antiphon.engines.probes.prober import PROBES, Probe, learned, run_probes, teach
from antiphon.engines.upstream import Engine

# ---- requests that wait for the probe of a model's tools -------------------------------------------------------------
# Without it, the first turns would be sent in another form than the later ones.


class ProbeWaiters:
    """Of one engine. All requests for a model wait for the same probe, and nobody waits any more `patience` seconds after the
    first of them began to."""

    def __init__(self, models: Iterable[str], patience: float) -> None:
        self._patience = patience
        self._ended = {model: asyncio.Event() for model in models}
        # By model, on the clock of the event loop.
        self._until: dict[str, float] = {}
        self._waiting = 0
        # Set while somebody waits.
        self._wanted = asyncio.Event()

    def wait_for(self, model: str) -> Coroutine[Any, Any, None] | None:
        """What ends with the probe, or when it has been waited for long enough. None: there is nothing to wait for."""
        ended, now = self._ended.get(model), asyncio.get_running_loop().time()
        if ended is None or ended.is_set():
            return None
        until = self._until.setdefault(model, now + self._patience)
        return self._wait(ended, until) if until > now else None

    async def _wait(self, ended: asyncio.Event, until: float) -> None:
        self._waiting += 1
        self._wanted.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await ended.wait()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._wanted.clear()

    async def come_within(self, seconds: float) -> bool:
        """Whether somebody waits now, or begins to in so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        return self._wanted.is_set()

    def end(self, model: str) -> None:
        """Its probe has ended. One that had no answer is repeated so late that nobody waits for that."""
        if (ended := self._ended.get(model)) is not None:
            ended.set()

    def end_all(self) -> None:
        for model in self._ended:
            self.end(model)


# Only the first models of an engine are probed before a client asks for them.
PROBED_AT_START = 4
# A model that had to be loaded may not answer in time. So often it is examined when a client asks for it.
MOST_LATE = 3
# Seconds between the probes of an engine that never answers them.
LONGEST_PAUSE = 3600.0


class ProbeTimes(Struct, frozen=True):
    """Seconds. Tests make them shorter or longer."""

    # Until a busy engine is checked again; and that a request of a probe waits for it at most.
    idle_check: float = 1.0
    longest_wait: float = 5.0
    # That an engine, or the first request for a model, waits for the probes that generate nothing.
    examination: float = 5.0
    # That requests with tools wait for the probe of tools, from the first of them on.
    tools: float = 20.0
    # Until an engine is probed again that was too busy to answer. Doubled each time.
    retry: float = 60.0


DEFAULT_TIMES = ProbeTimes()


class Examined(NamedTuple):
    # The capabilities that need no further probe.
    answered: frozenset[str]
    # How many examinations in a row ran out of time.
    late: int


Examination = asyncio.Task[Examined]


async def _no_generation() -> None:
    """For probes that look before they ask: what they would ask for has to wait for the background."""
    raise NoAnswer("it cannot be seen without a generation")


class Examiner:
    """Learns what the engines can do.

    What generates nothing costs nothing, and is asked before an engine is ready. What has to be generated is asked in the
    background, one request at a time, while no client uses the engine: with one slot a client would have to wait. An engine
    that is always busy is asked all the same, after a while; and at once, while requests wait for the probe of tools.
    """

    def __init__(
        self,
        is_busy: Callable[[Engine], bool],
        *,
        generates: bool = True,
        named_models: Sequence[str] = (),
        times: ProbeTimes = DEFAULT_TIMES,
        probes: Sequence[Probe] = PROBES,
    ) -> None:
        """`generates`: whether probes are run for which the engine has to generate. `named_models` are probed on an engine that
        lists none."""
        self._is_busy = is_busy
        self._generates = generates
        self._named_models = named_models
        self._times = times
        self._probes = probes
        self._examinations: dict[tuple[Engine, str], Examination] = {}
        self._probing: dict[Engine, asyncio.Task[None]] = {}
        self._waiters: dict[Engine, ProbeWaiters] = {}
        # By engine and model: what has been found since the engine was, by capability; and what of it the log has.
        self._findings: dict[tuple[Engine, str], dict[str, Finding]] = {}
        self._logged: dict[tuple[Engine, str], Mapping[str, Any]] = {}

    def examine(self, engine: Engine) -> None:
        """From now on: when it is found, and when it is asked for a model, or with tools."""
        engine.when_found, engine.when_asked_for, engine.when_offered_tools = self.found, self.asked_for, self.offered_tools

    async def found(self, engine: Engine) -> None:
        """Returns when the engine may be used: what it can do is known, or the safe way is taken until it is."""
        self._forget(engine)
        loaded = [model.id for model in engine.models if model.loaded]
        models = (loaded if engine.models else self._named_models)[:PROBED_AT_START]
        probed = models if self._generates and not engine.dialect.loads_on_demand else ()
        engine.knowledge.assume(probed)
        # Of a model that is probed as well, the log has a line once the probes have ended.
        started = [self._examine(engine, model, is_logged=model not in probed) for model in models]
        examinations = [task for task in started if task is not None]
        if probed:
            waiters = self._waiters[engine] = ProbeWaiters(map(engine.knowledge.served, probed), self._times.tools)
            self._probing[engine] = asyncio.create_task(self._probe(engine, probed, examinations, waiters))
        if examinations:
            await asyncio.wait(examinations)

    def asked_for(self, engine: Engine, model: str) -> Awaitable[object] | None:
        """What ends when all is known of the model that can be known without a generation. None: it is known already."""
        model = engine.knowledge.served(model)
        task = self._examinations.get((engine, model))
        late = task.result().late if task is not None and task.done() else 0
        if task is None or 0 < late < MOST_LATE:
            task = self._examine(engine, model, late)
        # Not the task itself: a caller that is cancelled must not cancel it.
        return None if task is None or task.done() else asyncio.wait({task})

    def offered_tools(self, engine: Engine, model: str) -> Awaitable[object] | None:
        """What ends with the probe of this model's tools, or when it has been waited for long enough. None: there is nothing to
        wait for."""
        waiters = self._waiters.get(engine)
        return waiters.wait_for(engine.knowledge.served(model)) if waiters is not None else None

    async def wait(self) -> None:
        """Returns when the probes that are running now have ended."""
        if running := [*self._examinations.values(), *self._probing.values()]:
            # Not `gather`: a caller that is cancelled here must not cancel the probes.
            await asyncio.wait(running)

    async def close(self) -> None:
        for task in (*self._examinations.values(), *self._probing.values()):
            task.cancel()
        await self.wait()

    def _forget(self, engine: Engine) -> None:
        """It may be another one by now."""
        for key in [key for key in self._examinations if key[0] is engine]:
            self._examinations.pop(key).cancel()
        if (probing := self._probing.pop(engine, None)) is not None:
            probing.cancel()
        self._waiters.pop(engine, None)
        for key in [key for key in self._findings if key[0] is engine]:
            del self._findings[key]

    # ---- without a generation ----------------------------------------------------------------------------------------

    def _examine(self, engine: Engine, model: str, late: int = 0, *, is_logged: bool = True) -> Examination | None:
        """None: there is nothing to ask."""
        probes = [probe for probe in self._probes if not probe.generates(engine.dialect)]
        if not probes:
            return None
        # Clients may ask for any name. The oldest ones would be examined again.
        ended = [key for key, task in self._examinations.items() if task.done()]
        for key in ended[: max(0, len(self._examinations) - MOST_MODELS)]:
            del self._examinations[key]
            self._findings.pop(key, None)
            self._logged.pop(key, None)
        task = asyncio.create_task(self._examine_in_time(engine, model, probes, late, is_logged=is_logged))
        self._examinations[engine, model] = task
        return task

    async def _examine_in_time(
        self, engine: Engine, model: str, probes: Sequence[Probe], late: int, *, is_logged: bool
    ) -> Examined:
        """An engine that does not answer is used all the same."""
        findings: list[Finding] = []
        try:
            async with asyncio.timeout(self._times.examination):
                await self._run(ProbeClient(engine, model, TIME_LIMIT, _no_generation), probes, findings)
            late = 0
        except TimeoutError:
            late += 1
        self._add(engine, model, findings)
        if is_logged:
            self._log_findings(engine, model)
        return Examined(frozenset(finding.capability for finding in findings if finding.verdict is not Verdict.UNKNOWN), late)

    # ---- in the background -------------------------------------------------------------------------------------------

    async def _probe(
        self, engine: Engine, models: Sequence[str], examinations: Sequence[Examination], waiters: ProbeWaiters
    ) -> None:
        try:
            if examinations:
                await asyncio.wait(examinations)
            for model in filter(engine.knowledge.assumes, models):
                logs.log("requests with tools wait for the probe of tools", engine=engine.root, model=model)
            left = {model: self._background_probes(engine, model) for model in models}
            for pause in self._pauses():
                left = await self._probe_models(engine, left, waiters)
                if not left:
                    return
                await asyncio.sleep(pause)
        finally:
            waiters.end_all()

    def _pauses(self) -> Iterator[float]:
        pause = self._times.retry
        while True:
            yield pause
            pause = min(2 * pause, max(self._times.retry, LONGEST_PAUSE))

    async def _probe_models(
        self, engine: Engine, left: Mapping[str, Sequence[Probe]], waiters: ProbeWaiters
    ) -> dict[str, list[Probe]]:
        """Returns the probes to repeat: those that a busy engine did not answer, as long as that of tools is one of them."""
        wait = partial(self._wait_until_idle, engine, waiters)
        clients = {model: ProbeClient(engine, model, TIME_LIMIT, wait) for model in left}
        found: dict[str, list[Finding]] = {model: [] for model in left}
        # Those of tools first, for all models: requests wait for them, and the other probes may take long.
        for model, probes in left.items():
            await self._run(clients[model], [probe for probe in probes if probe.capability == TOOLS], found[model])
            if TOOLS not in _unanswered(found[model]):
                engine.knowledge.stop_assuming(model)
            waiters.end(engine.knowledge.served(model))
        for model, probes in left.items():
            await self._run(clients[model], [probe for probe in probes if probe.capability != TOOLS], found[model])
            self._add(engine, model, found[model])
            self._log_findings(engine, model)
        missing = {model: names for model in left if TOOLS in (names := _unanswered(found[model]))}
        return {model: [probe for probe in left[model] if probe.capability in missing[model]] for model in missing}

    def _background_probes(self, engine: Engine, model: str) -> list[Probe]:
        """The quick ones that the examination has not answered."""
        examination = self._examinations.get((engine, model))
        answered = examination.result().answered if examination is not None and examination.done() else frozenset[str]()
        return [probe for probe in self._probes if probe.is_quick(engine.dialect) and probe.capability not in answered]

    async def _wait_until_idle(self, engine: Engine, waiters: ProbeWaiters) -> None:
        """Not while requests wait for it: they make the engine seem busy."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.longest_wait):
                # There is no event for an engine that becomes idle, and a short delay does no harm.
                while self._is_busy(engine) and not await waiters.come_within(self._times.idle_check):
                    pass

    # ---- both --------------------------------------------------------------------------------------------------------

    async def _run(self, client: ProbeClient, probes: Sequence[Probe], findings: list[Finding]) -> None:
        """Adds what is found, and teaches it at once."""
        engine, model = client.engine, client.model
        try:
            async for finding in run_probes(client, probes):
                findings.append(finding)
                teach(engine, model, [finding])
        except Exception as bug:
            # No client asked for this: what goes wrong here must not reach one.
            logs.log("probing failed", level=logging.ERROR, exc_info=bug, engine=engine.root, model=model)

    def _add(self, engine: Engine, model: str, findings: Sequence[Finding]) -> None:
        self._findings.setdefault((engine, model), {}).update((finding.capability, finding) for finding in findings)

    def _log_findings(self, engine: Engine, model: str) -> None:
        """Not again what the log has: an engine that was started again is mostly the same, and one too busy to answer is asked
        once more and once more."""
        found = [*self._findings[engine, model].values()]
        unknown = [finding.capability for finding in found if finding.verdict is Verdict.UNKNOWN]
        known: dict[str, Any] = {"learned": learned(found), "unknown": unknown}
        if self._logged.get((engine, model)) != known:
            self._logged[engine, model] = known
            logs.log("probed", engine=engine.root, model=model, **known)


def _unanswered(findings: Sequence[Finding]) -> set[str]:
    """The capabilities that a busy engine may show at another time."""
    return {finding.capability for finding in findings if finding.may_pass}
