"""One engine: what is known of it, whether it is there, and (`requests.py`) how it is asked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.knowledge import Loading, Model
from antiphon.engines.detection import MODELS, EngineDocuments, detect, list_models
from antiphon.engines.replies import REDIRECTS, location_to_words
from antiphon.engines.requests import EngineOptions, EngineRequests

# What a server answers that is not used as an engine → why, and what to do.
UNUSABLE: Mapping[int, str] = {
    401: "wants an API key, or rejects the one that it got (HTTP 401). Check --upstream-key.",
    502: "is not there yet: the proxy in front of it answers HTTP 502.",
    # llama.cpp, too, as long as it loads its model. It does not say how far it is.
    503: "is not ready yet (HTTP 503). It may be loading its model.",
    504: "is not there yet: the proxy in front of it answers HTTP 504.",
}
NOT_AN_ENGINE = "does not answer /v1/models as an engine does (HTTP {status}). Check --upstream."


async def _nothing_to_ask(engine: "Engine") -> None:
    """For an engine that nobody examines."""


class Engine(EngineRequests):
    """One engine: what is known of it, and how it is asked."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        options: EngineOptions = EngineOptions(),  # noqa: B008
        *,
        host: str | None = None,
    ) -> None:
        """`host`: see `EngineRequests`."""
        super().__init__(url, session, options, host=host)
        self.version: str | None = None
        self.ready = False
        # Awaited when the engine has been found, before it is ready: at the start, and when it comes back, or is another one.
        self.when_found: Callable[[Engine], Awaitable[None]] = _nothing_to_ask
        # Called before a request for this model is made for it. What it returns has to be awaited first.
        self.when_asked_for: Callable[[Engine, str], Awaitable[object] | None] = lambda engine, model: None
        # Called before a request with tools is sent to this model, if a probe is about to show whether it sees them. The same.
        self.when_offered_tools: Callable[[Engine, str], Awaitable[object] | None] = lambda engine, model: None
        # A server answers there, but cannot be used: the reason, as the rest of a sentence.
        self.unusable: str | None = None
        # No server answers there: the reason, in a few words.
        self.silence: str | None = None
        # It accepts connections, but does not answer when it is asked how it is: the reason. It is asked last.
        self.unhealthy: str | None = None
        # It runs in a process of this gateway, which reports for itself how its start goes.
        self.is_embedded = False
        # What its process reports of its start. None: nothing.
        self.loading: Loading | None = None
        # It answers with redirects: only other settings can help.
        self.redirects = False
        self._away = True
        self._detecting: asyncio.Task[None] | None = None

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def dialect(self) -> Dialect:
        return self.knowledge.dialect

    @property
    def models(self) -> tuple[Model, ...]:
        return self.knowledge.models

    @property
    def slots(self) -> int | None:
        """How many requests it processes at once, by what it reports; None: it does not say, or takes any number."""
        return max((model.slots for model in self.models if model.slots is not None), default=None)

    @property
    def chat_template(self) -> str | None:
        return self._options.chat_template

    async def identify(self) -> None:
        """Finds out what the engine is, once; requests that come meanwhile wait for the same answer."""
        if self.ready:
            return
        if self._detecting is None:
            self._detecting = asyncio.create_task(self._detect())
            self._detecting.add_done_callback(lambda _: setattr(self, "_detecting", None))
        await asyncio.shield(self._detecting)

    async def _detect(self) -> None:
        documents = self.documents()
        found = await detect(documents, lists_models=False)
        if found is None:
            self._away = True
            self.unusable = _why_unusable(documents)
            self.silence = documents.silence if self.unusable is None else None
            self.redirects = documents.location(MODELS) is not None
            return
        self.unusable, self.silence, self.redirects, self.unhealthy = None, None, False, None
        known = {model.id for model in self.models}
        # After a lost connection it may be the same engine as before.
        is_new = self._away or known != {model.id for model in found.models}
        self._away = False
        self.knowledge.models, self.version = found.models, found.version
        self.knowledge.takes_any_model = not found.models
        if not self._options.dialect:
            self._speak(found.dialect)
        if is_new:
            await self.when_found(self)
        self.ready = True

    def _speak(self, dialect: Dialect) -> None:
        """Its requests may have to be posted elsewhere."""
        before, self.knowledge.dialect = self.knowledge.dialect, dialect
        if dialect.protocol != before.protocol:
            self._chat = self._open_chat_endpoint()

    async def read_models(self) -> None:
        """Finds out whether it has other models by now."""
        if not self.ready:
            return
        listed = await list_models(self.documents())
        if listed is not None and {model["id"] for _, model in listed} != {model.id for model in self.models}:
            await self._detect()

    @property
    def up(self) -> bool:
        return self.ready and self.unhealthy is None

    def lost(self) -> None:
        """It broke off or is gone: it is identified again before it is used."""
        self.ready = False

    def moved(self, url: str) -> None:
        self.root = self.knowledge.name = url
        self._chat = self._open_chat_endpoint()
        self.lost()

    def progressed(self, loading: Loading) -> None:
        self.loading = loading

    async def close(self) -> None:
        """Ends a detection that is still running: it must not outlive its session."""
        if self._detecting is not None:
            self._detecting.cancel()
            await asyncio.wait({self._detecting})


def _why_unusable(documents: EngineDocuments) -> str | None:
    """Of a server whose answer to a request for its models is not that of an engine; None: there was no answer."""
    status, location = documents.status(MODELS), documents.location(MODELS)
    if status is None:
        return None
    if location is not None:
        return REDIRECTS.format(location=location_to_words(location), status=status)
    return UNUSABLE.get(status, NOT_AN_ENGINE.format(status=status))
