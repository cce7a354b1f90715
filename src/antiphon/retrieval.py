"""What a gateway has for vector stores: the stores, their files, the index of chunks, and who fills it."""

from antiphon.files.library import FileLibrary
from antiphon.files.texts import FileTexts
from antiphon.gateway.checker import Checker
from antiphon.gateway.ids import new_id
from antiphon.store.protocol import Store
from antiphon.vector_stores.attempts import IndexerOptions, IndexerParts
from antiphon.vector_stores.chunk_index import ChunkIndex
from antiphon.vector_stores.indexer import Indexer
from antiphon.vector_stores.limits import VectorStoreLimits
from antiphon.vector_stores.store_files import StoreFiles
from antiphon.vector_stores.vector_stores import VectorStores


class Retrieval:
    def __init__(
        self, store: Store, library: FileLibrary, checker: Checker, limits: VectorStoreLimits, options: IndexerOptions
    ) -> None:
        files = store.files
        self._index = ChunkIndex(files.database, None)
        self.stores = VectorStores(files, library, self._index, limits, new_id)
        self.store_files = StoreFiles(self.stores, self._index, files.database, new_id)
        parts = IndexerParts(new_id("indexer"), files, library, FileTexts(checker), self._index, options)
        self.indexer = Indexer(parts)
        library.on_delete.append(self.stores.forget_file)

    async def close(self) -> None:
        await self.indexer.close()
        await self._index.close()
