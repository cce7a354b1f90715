"""Several engines as one: a conversation goes to the same engine each time, so that its prefix cache is warm there, and its
tools keep the form that they had at first."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from antiphon import logs
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import ANY_MODEL
from antiphon.core.knowledge.model_names import ModelChoice, ModelNames
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.engines.affinity import conversation_key
from antiphon.engines.health import HealthChecks
from antiphon.engines.load import DEFAULT_PLACEMENT, EngineLoads, PlacementOptions, least_busy, order_of
from antiphon.engines.replies import REDIRECT_CODE
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineError, EngineUnavailable, NotFound
from antiphon.wire.responses import CreateResponse

# ---- What names of models mean, as long as the settings and the lists of the engines stay as they are ----------------

# Clients may ask for any name. If there are more, they are found out anew.
MOST_NAMES = 200


class Meaning(NamedTuple):
    chosen: ModelChoice
    # The engines that list the model, even while they are away; else those that list none; else all.
    engines: list[Engine]


class ModelTable:
    """Every request asks for a name, and nearly all of them for the same few: what follows from it is found out once.

    It is valid while it is `made_of` what there is: who changes what an engine lists need not know of it.
    """

    def __init__(self, names: ModelNames, engines: Sequence[Engine]) -> None:
        self._names = names
        self._engines = list(engines)
        self.made_of = basis_of(names, engines)
        # Some engine lists no models, and takes any name.
        self.some_take_any = any(engine.knowledge.takes_any_model for engine in engines)
        # The exact names that an engine lists, or the settings have, or that stand for the only one of an engine.
        self.listed = frozenset([ANY_MODEL, *names.models, *(model.id for engine in engines for model in engine.models)])
        self._meanings: dict[str | None, Meaning] = {}

    def meaning_of(self, asked: str | None) -> Meaning:
        """Raises `NotFound` for a name that no engine knows."""
        meaning = self._meanings.get(asked)
        if meaning is None:
            chosen = self._names.choose(asked, (engine.knowledge for engine in self._engines))
            meaning = Meaning(chosen, self.candidates(chosen.model))
            if len(self._meanings) >= MOST_NAMES:
                self._meanings.clear()
            self._meanings[asked] = meaning
        return meaning

    def candidates(self, model: str | None) -> list[Engine]:
        if model is None:
            return self._engines
        listed = [engine for engine in self._engines if engine.knowledge.serves(model)]
        return listed or [engine for engine in self._engines if engine.knowledge.takes_any_model] or self._engines


def basis_of(names: ModelNames, engines: Sequence[Engine]) -> list[object]:
    """All that a table follows from. None of it is changed in place, so comparing it takes no longer than looking whether
    they are the same objects."""
    basis: list[object] = [names]
    for engine in engines:
        knowledge = engine.knowledge
        basis += (engine, knowledge.models, knowledge.takes_any_model)
    return basis


# Seconds until an engine that did not answer is tried again.
ENGINE_RETRY_INTERVAL = 1.0
# Seconds after which an engine's list of models is old; and seconds that a request waits for it to be read again.
MODELS_LIFETIME = 5.0
MODELS_TIMEOUT = 1.0


class Choice(Struct, frozen=True):
    # The engines to try, best first.
    engines: list[Engine]
    # None: the first model of whichever engine is asked.
    model: str | None
    notices: list[str]


class Pool:
    def __init__(
        self,
        engines: Sequence[Engine],
        retry_interval: float = ENGINE_RETRY_INTERVAL,
        names: ModelNames = ModelNames(),  # noqa: B008
        placement: PlacementOptions = DEFAULT_PLACEMENT,
        health: HealthChecks | None = None,
    ) -> None:
        self.engines = list(engines)
        self.names = names
        self._table = ModelTable(names, engines)
        self.placement = placement
        self._retry_interval = retry_interval
        # Set when the first engine is ready.
        self.ready_event = asyncio.Event()
        # Whether a request for this engine would have to wait. Those that are free are tried first.
        self.is_full: Callable[[Engine], bool] = lambda engine: False
        self.loads, self.health = EngineLoads(), health or HealthChecks()
        self._round_robin = itertools.count()
        # Why each engine could not be used when that was last logged.
        self._logged: dict[Engine, str | None] = {}
        self._lists_read = -MODELS_LIFETIME
        self._reading: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        return any(engine.ready for engine in self.engines)

    async def identify(self) -> None:
        """Finds out what the engines are that are not ready."""
        await asyncio.gather(*(engine.identify() for engine in self.engines))
        for engine in self.engines:
            self._log_state(engine)

    def _log_state(self, engine: Engine) -> None:
        """Once for each reason: an engine is tried again and again. The embedded one reports for itself how its start goes."""
        reason = engine.unusable or engine.silence
        if reason is not None and reason != self._logged.get(engine) and not engine.is_embedded:
            if engine.unusable is not None:
                logs.log("engine cannot be used", level=logging.WARNING, engine=engine.root, reason=f"it {reason}")
            else:
                logs.log("waiting for engine", level=logging.WARNING, engine=engine.root, reason=reason)
        self._logged[engine] = reason

    async def ready_engines(self) -> list[Engine]:
        """Raises `EngineUnavailable` if there are none."""
        if not self.ready:
            await self.identify()
        if not self.ready:
            raise self.unavailable(self.engines)
        return [engine for engine in self.engines if engine.ready]

    async def choose(self, model: str | None, key: str | None) -> Choice:
        """The engines that serve the model, the best for this key first, and the model that answers for this name. `key`: of
        the conversation (affinity.py); None: the request belongs to none."""
        meaning = await self._find(model)
        serving = [engine for engine in meaning.engines if engine.ready]
        if not serving:
            await self.identify()
            meaning = await self._find(model)
            serving = [engine for engine in meaning.engines if engine.ready]
        if not serving:
            raise self.unavailable(meaning.engines)
        chosen, examining = meaning.chosen, None
        for engine in serving:
            asked_for = chosen.model or engine.knowledge.default_model
            # Mostly there is nothing to wait for.
            if (awaitable := engine.when_asked_for(engine, asked_for)) is not None:
                examining = [*(examining or ()), awaitable]
        if examining is not None:
            # All at once: those that do not answer keep the request waiting only once.
            await asyncio.gather(*examining)
        ordered = serving if len(serving) == 1 else self._ordered(serving, key)
        return Choice(ordered, chosen.model, [chosen.notice] if chosen.notice else [])

    async def choose_model(self, asked: str | None) -> ModelChoice:
        """Which model answers for this name. Raises `NotFound` for one that no engine knows."""
        return (await self._find(asked)).chosen

    async def _find(self, asked: str | None) -> Meaning:
        try:
            table = self.table()
            meaning = table.meaning_of(asked)
            if meaning.chosen.notice is None:
                if table.some_take_any:
                    self._look_for_missing_lists()
                return meaning
        except NotFound:
            pass
        # An engine may have got another model since it was found.
        await self.read_lists()
        try:
            return self.table().meaning_of(asked)
        except NotFound:
            unseen = [engine for engine in self.engines if not engine.ready and not engine.models]
            if unseen:
                raise self.unavailable(unseen) from None
            raise

    def table(self) -> ModelTable:
        """What names of models mean now."""
        if self._table.made_of != basis_of(self.names, self.engines):
            self._table = ModelTable(self.names, self.engines)
        return self._table

    async def read_lists(self) -> None:
        """Reads the engines' lists of models again if they are old. Requests that come meanwhile wait for the same answer."""
        if (reading := self._reading_lists()) is not None:
            await asyncio.wait({reading}, timeout=MODELS_TIMEOUT)

    def _look_for_missing_lists(self) -> None:
        """An engine that listed no models may do so by now. Nothing waits for it: any name will do for such an engine."""
        if any(engine.ready and engine.knowledge.takes_any_model for engine in self.engines):
            self._reading_lists()

    def _reading_lists(self) -> asyncio.Task[None] | None:
        """The task that reads them; None: they are not old yet."""
        if self._reading is None and asyncio.get_running_loop().time() - self._lists_read >= MODELS_LIFETIME:
            self._reading = asyncio.create_task(self._read_all_lists())
            self._reading.add_done_callback(lambda _: setattr(self, "_reading", None))
        return self._reading

    async def _read_all_lists(self) -> None:
        await asyncio.gather(*(engine.read_models() for engine in self.engines))
        self._lists_read = asyncio.get_running_loop().time()

    def unavailable(self, engines: Iterable[Engine]) -> EngineError:
        """Says of each engine why it cannot be used."""
        engines = list(engines)
        if not engines:
            return EngineUnavailable("No engine is known yet.", retry_after=self._retry_interval)
        reasons = [f"The embedded engine is {engine.loading}." for engine in engines if engine.loading is not None]
        others = [engine for engine in engines if engine.loading is None]
        reasons += [f"The engine at {engine.root} {engine.unusable}" for engine in others if engine.unusable is not None]
        if silent := [engine.root for engine in others if engine.unusable is None]:
            reasons.append(f"No engine answers at {', '.join(silent)} yet.")
        if engines and all(engine.redirects for engine in engines):
            return EngineError(" ".join(reasons), code=REDIRECT_CODE, may_pass=False)
        return EngineUnavailable(" ".join(reasons), retry_after=self._retry_interval)

    def _ordered(self, engines: list[Engine], key: str | None) -> list[Engine]:
        loads = [self.loads.load_of(engine) for engine in engines]
        if key is not None and self.placement.affinity:
            names, rooms = [engine.root for engine in engines], [engine.slots or engine.dialect.room for engine in engines]
            order = order_of(key, names, loads, rooms, self.placement.load_bound)
        else:
            order = least_busy(loads, next(self._round_robin))
        return sorted((engines[at] for at in order), key=lambda engine: (engine.unhealthy is not None, self.is_full(engine)))

    def serving(self, model: str | None) -> list[Engine]:
        """The engines that are ready to serve the model."""
        return [engine for engine in self.table().candidates(model) if engine.ready]

    def is_listed(self, model: str) -> bool:
        """By its exact name: an engine lists it, or the settings name it, or it stands for the only one of an engine."""
        return model in self.table().listed

    def replace(self, engines: Sequence[Engine]) -> list[Engine]:
        """From the next request on, these are the engines. Returns those that are not any more: what they answer goes on."""
        gone = [engine for engine in self.engines if engine not in engines]
        self.engines = list(engines)
        self._logged = {engine: reason for engine, reason in self._logged.items() if engine not in gone}
        return gone

    def dialect_of(self, root: str) -> str:
        """The name of the dialect of the engine at this URL."""
        return next((engine.dialect.name for engine in self.engines if engine.root == root), PLAIN.name)

    async def watch(self) -> None:
        """Keeps looking at the engines, so that what they are, how they are and how busy they are is known before a request
        needs it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_absent())
            group.create_task(self.health.watch(lambda: self.engines))
            group.create_task(self.loads.watch(lambda: self.engines))

    async def _watch_absent(self) -> None:
        while True:
            await self.identify()
            if self.ready:
                self.ready_event.set()
            await asyncio.sleep(self._retry_interval)

    async def close(self) -> None:
        """Ends what is still being asked of the engines: it must not outlive their session."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        for engine in self.engines:
            await engine.close()


# ---- Whether a conversation is to keep its tools in words, because it began so ---------------------------------------


class ToolForm(NamedTuple):
    # The key of the conversation; None: nobody will ask for it.
    conversation: str | None = None
    # The numbers of the engines for which its tools are in words.
    in_words: tuple[int, ...] = ()


# Of nearly every request.
NO_FORM = ToolForm()


def form_of(
    engines: Sequence[Engine], model: str | None, request: CreateResponse, history: Sequence[Mapping[str, Any]], owner: str
) -> ToolForm:
    """`engines`: those that may be asked, for this model, or for the first of each if it is None."""
    for engine in engines:
        if engine.knowledge.has_two_forms:
            break
    else:
        return NO_FORM
    known = [(engine.knowledge, model or engine.knowledge.default_model) for engine in engines]
    conversation = conversation_key(request, history, owner)
    if not _is_continued([*history, *request_to_items(request)]):
        # Another one that began with the same words.
        for knowledge, name in known:
            knowledge.forms.forget(name, conversation)
        return ToolForm(conversation)
    kept = (at for at, (knowledge, name) in enumerate(known) if knowledge.forms.is_in_words(name, conversation))
    return ToolForm(conversation, tuple(kept))


def _is_continued(items: Sequence[Mapping[str, Any]]) -> bool:
    """There is something of the model in it."""
    return any(item.get("role") == "assistant" or item.get("type", "message") != "message" for item in items)
