"""What a gateway has for vector stores: the stores, their files, the index of chunks, and who fills it."""

from msgspec import structs

from antiphon.app.embedding_models import EmbeddingModels
from antiphon.files.library import FileLibrary
from antiphon.files.texts import FileTexts
from antiphon.files.vector_stores.attempts import IndexerOptions, IndexerParts
from antiphon.files.vector_stores.indexer import Indexer
from antiphon.files.vector_stores.limits import VectorStoreLimits
from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.store_files import StoreFiles
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.ids import new_id
from antiphon.settings.vector_store_settings import VectorStoreSettings
from antiphon.store.file_store import FileStore


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
        index = ChunkIndex(stored.database, models.current, embedder_of=models.of_model, memory=settings.memory)
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
