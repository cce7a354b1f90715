"""What a gateway has for vector stores: the stores, their files, the index of chunks, and who fills it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from msgspec import structs

from antiphon.engines.bodies import read_document, read_error
from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.named_models import SENTENCES, ModelFile
from antiphon.engines.pool import Pool
from antiphon.engines.replies import ours
from antiphon.engines.requests import EngineOptions
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError
from antiphon.files.file_inputs import FileTexts
from antiphon.files.library import FileLibrary
from antiphon.files.vector_stores.indexer import Indexer, IndexerOptions, IndexerParts
from antiphon.files.vector_stores.interfaces import VectorStoreLimits
from antiphon.files.vector_stores.search import embeddings, sentence_vectors
from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.embeddings import (
    Embedder,
    EmbeddingServer,
    NotEmbedded,
    WordVectors,
    embedding_request,
)
from antiphon.files.vector_stores.search.sentence_vectors import SentenceVectors
from antiphon.files.vector_stores.store_files import StoreFiles
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.ids import new_id
from antiphon.installation import missing_extra
from antiphon.logs import log
from antiphon.settings.errors import SettingsError, wrong_address
from antiphon.settings.groups import fill_variables
from antiphon.settings.tables import VectorStoreSettings
from antiphon.store.operations import Database
from antiphon.store.protocol import FileStore

if TYPE_CHECKING:
    from antiphon.files.vector_stores.search.database_vectors import DatabaseVectors

# ---- which model turns texts into vectors ----------------------------------------------------------------------------

TABLE = "vector_stores"
PATH = "/v1/embeddings"
OFF = "off"
WORDLLAMA = "wordllama"
# They say: not these texts. 500 is what llama.cpp answers for a text that is too long.
REFUSED = frozenset({400, 413, 422, 500})
# Seconds until a download that failed is tried again.
FETCH_AGAIN = 3600.0
FetchModel = Callable[[ModelFile, Path], Awaitable[Path]]


class EmbeddingModels:
    """The embedders of a gateway."""

    def __init__(
        self,
        settings: VectorStoreSettings,
        pool: Pool,
        session: aiohttp.ClientSession,
        is_installed: Callable[[], bool] = embeddings.is_installed,
        sentences: "SentenceModel | None" = None,
    ) -> None:
        """Raises SettingsError. `is_installed`: whether wordllama is there. `sentences`: a better one, without a server."""
        check_embeddings(settings, is_installed)
        self._sentences = sentences
        self._settings = settings
        self._pool = pool
        self._server = _server(settings, session)
        self._word_vectors = WordVectors() if is_installed() else None
        self._by_model: dict[str, Embedder] = {}

    @property
    def own(self) -> WordVectors | None:
        """For requests that ask for vectors."""
        return None if self._settings.embedding_model == OFF else self._word_vectors

    async def current(self) -> Embedder | None:
        """For what is added now. None: searches use words alone."""
        chosen = self._settings.embedding_model
        if chosen == OFF:
            return None
        if chosen in (None, SENTENCES.name):
            made = await self._sentences.fetched(must=chosen is not None) if self._sentences is not None else None
            return made if made is not None or chosen is not None else self._word_vectors
        return self._word_vectors if chosen == WORDLLAMA else self.of_model(chosen)

    def of_model(self, model: str) -> Embedder | None:
        """For chunks that were added with this model, whatever the settings say now."""
        if model == embeddings.MODEL:
            return self._word_vectors
        if model == sentence_vectors.MODEL:
            return self._sentences.here if self._sentences is not None else None
        if self._settings.embedding_model == OFF:
            return None
        if model not in self._by_model:
            self._by_model[model] = self._make(model)
        return self._by_model[model]

    def _make(self, model: str) -> Embedder:
        async def ask(texts: list[str]) -> bytes:
            engine, name = (self._server, model) if self._server is not None else await self._find(model)
            return await _post(engine, embedding_request(name, texts))

        chosen = self._settings
        return EmbeddingServer(
            ask,
            model,
            query_prefix=chosen.query_prefix,
            text_prefix=chosen.text_prefix,
            timeout=chosen.embedding_timeout,
        )

    async def _find(self, model: str) -> tuple[Engine, str]:
        try:
            found = await self._pool.choose(model, None)
        except ApiError as error:
            raise NotEmbedded(error.message) from None
        if found.notices:
            # Another model would answer for it, and its vectors could not be compared.
            raise NotEmbedded(f"no engine has the model {model}")
        return found.engines[0], found.model or model


async def _fetch(model: ModelFile, folder: Path) -> Path:
    # It imports what shows the progress of downloads: most gateways need none.
    from antiphon.engines.embedded.pulled_models import fetch

    return await fetch(model, folder)


class SentenceModel:
    """The model of sentences, whose file is downloaded once."""

    def __init__(self, folder: Path, *, downloads: bool, fetch: FetchModel | None = None) -> None:
        """`folder`: of models. `downloads`: also where nobody has asked for this model."""
        self._folder = folder
        self._downloads = downloads
        self._fetch = fetch or _fetch
        self._turn = asyncio.Lock()
        self._made: SentenceVectors | None = None
        # After a download that failed; by the clock of the loop.
        self._again_at = 0.0

    @property
    def here(self) -> SentenceVectors | None:
        """None: it has not been downloaded, or a package that it needs is missing."""
        if self._made is None and sentence_vectors.can_run():
            file = SENTENCES.path_in(self._folder)
            self._made = SentenceVectors(file) if SENTENCES.is_at(file) else None
        return self._made

    async def fetched(self, *, must: bool) -> SentenceVectors | None:
        """`must`: the settings name it. None: it cannot be had now."""
        if self.here is not None or not sentence_vectors.can_run() or not (must or self._downloads):
            return self.here
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if self.here is None and now >= self._again_at:
                try:
                    await self._fetch(SENTENCES, self._folder)
                except CannotEmbed as failed:
                    self._again_at = now + FETCH_AGAIN
                    log("not_embedded", level=logging.WARNING, model=SENTENCES.name, reason=str(failed))
            return self.here


async def _post(engine: Engine, body: bytes) -> bytes:
    try:
        answer = await engine.post(PATH, body)
        if answer.status != 200:
            # Read, so that the engine is not cut off in the middle of its sentence.
            await read_error(answer)
            refused = answer.status in REFUSED
            raise NotEmbedded(f"{engine.root} answers {PATH} with HTTP {answer.status}", is_refused=refused)
        async with ours(engine.root):
            return await read_document(answer)
    except ApiError as error:
        raise NotEmbedded(error.message) from None


def _server(settings: VectorStoreSettings, session: aiohttp.ClientSession) -> Engine | None:
    if settings.embedding_url is None:
        return None
    return Engine(settings.embedding_url, session, EngineOptions(key=_key(settings) or None))


def check_embeddings(settings: VectorStoreSettings, is_installed: Callable[[], bool] = embeddings.is_installed) -> None:
    """What one setting alone does not show. Raises SettingsError."""
    chosen = settings.embedding_model
    if settings.embedding_url is not None:
        if chosen in (None, OFF, WORDLLAMA, SENTENCES.name):
            raise SettingsError(f"{TABLE}.embedding_model is missing: {TABLE}.embedding_url needs the name of a model there")
        if wrong_address(settings.embedding_url) is not None:
            raise SettingsError(f"{TABLE}.embedding_url must be http://HOST:PORT or https://HOST, with a path or without one")
    elif settings.embedding_key is not None:
        raise SettingsError(f"{TABLE}.embedding_url is missing: {TABLE}.embedding_key is for a server of your own")
    if settings.embed_again and chosen in (None, OFF):
        # Which model is used by default depends on what can be downloaded.
        raise SettingsError(f"{TABLE}.embedding_model is missing: {TABLE}.embed_again needs the name of a model")
    _key(settings)
    if chosen == WORDLLAMA and not is_installed():
        raise SettingsError(missing_extra(f'{TABLE}.embedding_model = "{WORDLLAMA}"', "search"))
    is_missing = not sentence_vectors.can_run() if chosen == SENTENCES.name else find_spec("numpy") is None
    if chosen not in (None, OFF) and is_missing:
        raise SettingsError(missing_extra(f"{TABLE}.embedding_model", "search"))


def _key(settings: VectorStoreSettings) -> str:
    return fill_variables(f"{TABLE}.embedding_key", settings.embedding_key or "")


def _in_database(settings: VectorStoreSettings, database: Database) -> "DatabaseVectors | None":
    if not settings.pgvector or find_spec("numpy") is None:
        return None
    from antiphon.files.vector_stores.search.database_vectors import DatabaseVectors

    return DatabaseVectors(database, memory=settings.memory)


class Retrieval:
    def __init__(
        self,
        settings: VectorStoreSettings,
        stored: FileStore,
        library: FileLibrary,
        texts: FileTexts,
        models: EmbeddingModels,
        options: IndexerOptions,
    ) -> None:
        index = ChunkIndex(
            stored.database,
            current=models.current,
            embedder_of=models.of_model,
            memory=settings.memory,
            embeds_again=settings.embed_again,
            in_database=_in_database(settings, stored.database),
        )
        limits = VectorStoreLimits(
            stores=settings.max_stores, files=settings.max_files, key_bytes=settings.key_bytes, bytes=settings.max_bytes
        )
        self._index = index
        self.stores = VectorStores(stored, library, index, limits, new_id)
        self.store_files = StoreFiles(self.stores, index, stored.database, new_id)
        options = structs.replace(options, workers=settings.indexing_workers)
        self.indexer = Indexer(IndexerParts(new_id("indexer"), stored, library, texts, index, options, limits.room))
        library.on_delete.append(self.stores.forget_file)

    async def close(self) -> None:
        await self.indexer.close()
        await self._index.close()
