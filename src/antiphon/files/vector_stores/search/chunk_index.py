"""The chunks of vector stores: written with their words and vectors, and found by both.

A search makes a ranking by words (BM25) and one by vectors for each query, and fuses them by reciprocal rank. The best of these
get a score, which orders them. It says how well a chunk matches, whatever else is found: the mean, by the weights of the
search, of the share of the query's words that it has, the rare ones counting more, and of the cosine between its vector and
that of the query. So a threshold means the same in every search.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from antiphon.core.toolbox.word_ranking import rarity
from antiphon.errors import StoreUnavailable
from antiphon.files.vector_stores.search.embeddings import CurrentEmbedder, Embedder, EmbedderOf
from antiphon.files.vector_stores.search.found import Found, Piece, Ranking, Wanted, fuse, merged, of_many_files
from antiphon.files.vector_stores.search.words import (
    level_of,
    share_of_level,
    share_of_words,
    terms_of_text,
    terms_of_word,
    words_of_query,
)
from antiphon.logs import log
from antiphon.store.files import chunks
from antiphon.store.files.chunks import ChunkRow, NewChunk, Ranked, StoreState
from antiphon.store.operations import Database, Operation

if TYPE_CHECKING:
    from antiphon.files.vector_stores.search.database_vectors import DatabaseVectors
    from antiphon.files.vector_stores.search.embeddings import Vectors
    from antiphon.files.vector_stores.search.vector_cache import VectorCache
    from antiphon.files.vector_stores.search.vectors import Near

# Chunks that are written in one transaction: others wait for it.
AT_ONCE = 100
# Chunks whose missing vectors are made at once.
EMBEDDED_LATER = 20
# About how many vectors a chunk has: so many more are looked for than chunks.
WINDOWS_OF_CHUNK = 4
# Of each ranking, so many are fused; more, if more are wanted.
DEPTH = 100
# So many of the fused ones get a score, or so many times as many as are wanted: some of them become one passage.
CANDIDATES = 30
MERGED = 3
# How many places in the index one ranking by words may read: of a store with many chunks, the words that most of them have are
# then passed over. They say little.
MOST_PLACES = 200_000
# How often one search looks a word up in a store. With many queries and stores, only the first words of each query count.
MOST_LOOKUPS = 4_096
FEWEST_WORDS = 8
# Seconds until a model that could not make vectors is asked again for those that are missing.
EMBED_AGAIN = 60.0
# The memory for vectors, in bytes.
MEMORY = 512 * 1024 * 1024


class Query(NamedTuple):
    text: str
    # The words that some chunk has, and how rare each is.
    rarities: Mapping[str, float]
    # Of the terms of these words.
    weights: Mapping[int, float]


class Asked(NamedTuple):
    """The queries, embedded by one model."""

    model: str
    stores: list[str]
    vectors: "Vectors"
    words_weight: float


# Writes the vectors of some chunks of a store that are already there.
WriteLater = Callable[[str, str, Sequence[tuple[int, str, Sequence[bytes]]], str], Operation[None]]


class ChunkIndex:
    def __init__(
        self,
        database: Database,
        embedder: Embedder | None = None,
        *,
        current: CurrentEmbedder | None = None,
        embedder_of: EmbedderOf = lambda model: None,
        memory: int = MEMORY,
        embeds_again: bool = False,
        in_database: "DatabaseVectors | None" = None,
    ) -> None:
        """`embedder`: for what is added; or `current`, where that is known only then. `embedder_of`: for what others have
        embedded. `in_database`: compares vectors where the database can."""
        self._database = database
        self._embedder = embedder
        self._choose = current
        self._embedder_of = embedder_of
        self._memory = memory
        # Also what another model has embedded; and the last chunk of these that was looked at.
        self._embeds_again = embeds_again
        self._embedded_again = 0
        # By the clock of the database.
        self._embed_again_at = 0.0
        self._cache: VectorCache | None = None
        self._in_database = in_database

    async def close(self) -> None:
        if self._cache is not None:
            await self._cache.close()
        if self._in_database is not None:
            await self._in_database.close()

    async def _current(self) -> Embedder | None:
        """For what is added now. Without numpy there are only words."""
        if find_spec("numpy") is None:
            return None
        return await self._choose() if self._choose is not None else self._embedder

    # ---- writing -----------------------------------------------------------------------------------------------------

    async def add(self, store: str, file: str, texts: Sequence[str | Piece], *, first: int = 0) -> None:
        """In small transactions, so that much is kept if it is killed: see `count`. A chunk whose vectors cannot be made now is
        found by its words, until `embed_later` has made them."""
        pieces = [Piece(each) if isinstance(each, str) else each for each in texts]
        for at in range(0, len(pieces), AT_ONCE):
            some = [_storable(piece) for piece in pieces[at : at + AT_ONCE]]
            read = await asyncio.to_thread(_new_chunks, store, some, first + at)
            embedder = await self._current()
            vectors = await _embed(embedder, some) if embedder is not None else [None] * len(some)
            new = [chunk._replace(vectors=made) for chunk, made in zip(read, vectors, strict=True)]
            model = embedder.model if embedder is not None else None
            await self._write(chunks.add(store, file, new, model, await self._put_vector()))

    async def _put_vector(self) -> str:
        """The statement that writes a vector."""
        return chunks.PUT_VECTOR if self._in_database is None else await self._in_database.put_vector()

    async def _write(self, operation: Operation[Any]) -> None:
        try:
            await self._database.write(operation)
        except StoreUnavailable:
            if self._in_database is not None:
                self._in_database.write_failed()
            raise

    def arrange(self) -> None:
        """In the background: what makes searches faster, where the database has it."""
        if self._in_database is not None:
            self._in_database.arrange()

    async def embed_later(self) -> int:
        """Make some of the vectors that could not be made before, or that another model made. How many chunks; 0: there are no
        such, or it still cannot be done, and is not tried again for a while."""
        if self._database.clock() < self._embed_again_at:
            return 0
        waiting = await self._database.read(chunks.without_vector(EMBEDDED_LATER))
        embedder = await self._current() if waiting or self._embeds_again else None
        if embedder is None:
            return 0
        if waiting:
            return await self._write_later(embedder, waiting, chunks.put_later)
        others = await self._database.read(chunks.of_other_models(embedder.model, self._embedded_again, EMBEDDED_LATER))
        made = await self._write_later(embedder, others, chunks.replace) if others else 0
        if made:
            self._embedded_again = others[-1].id
            log("embedded_again", level=logging.DEBUG, model=embedder.model, chunks=made, last=self._embedded_again)
        elif not others:
            # Perhaps another gateway, which has an earlier model, adds more.
            self._embedded_again = 0
        return made

    async def _write_later(self, embedder: Embedder, waiting: Sequence[ChunkRow], write: WriteLater) -> int:
        made = await _embed(embedder, [Piece(chunk.text, chunk.context, chunk.shared) for chunk in waiting])
        if None in made:
            self._embed_again_at = self._database.clock() + EMBED_AGAIN
        for store in dict.fromkeys(chunk.store for chunk in waiting):
            new = [
                (chunk.id, chunk.file, vectors)
                for chunk, vectors in zip(waiting, made, strict=True)
                if chunk.store == store and vectors is not None
            ]
            if new:
                await self._write(write(store, embedder.model, new, await self._put_vector()))
        return sum(vectors is not None for vectors in made)

    async def remove(self, store: str, file: str) -> None:
        await self._remove(store, file)

    async def remove_store(self, store: str) -> None:
        await self._remove(store, None)
        await self._database.write(chunks.forget_store(store))

    async def _remove(self, store: str, file: str | None) -> None:
        while some := await self._database.read(chunks.removable(store, file, AT_ONCE)):
            terms = await asyncio.to_thread(_terms, store, [Piece(each.text or "", each.context) for each in some])
            await self._database.write(chunks.remove(store, dict(zip((each.id for each in some), terms, strict=True))))
        if self._cache is not None:
            self._cache.drop(store)

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def count(self, store: str, file: str) -> int:
        """How many chunks there are already. They are the first ones."""
        return await self._database.read(chunks.count(store, file))

    async def texts(self, store: str, file: str) -> AsyncIterator[list[str]]:
        """Some at a time."""
        after = -1
        while some := await self._database.read(chunks.texts(store, file, after, AT_ONCE)):
            yield [text for _, text in some]
            after = some[-1][0]

    # ---- searching ---------------------------------------------------------------------------------------------------

    async def search(self, stores: Sequence[str], queries: Sequence[str], wanted: Wanted) -> list[Found]:
        """The best first. Vectors that cannot be compared now do not count: then words alone decide."""
        states = await self._database.read(chunks.states(list(dict.fromkeys(stores))))
        if not states or not queries or wanted.most < 1:
            return []
        asked = await self._ask(states, queries) if wanted.embedding_weight is None or wanted.embedding_weight > 0 else []
        by_words, by_meaning = _weights(wanted, asked)
        most_words = max(FEWEST_WORDS, MOST_LOOKUPS // (len(states) * len(queries)))
        read = [await self._query(states, text, most_words) for text in queries] if by_words or not asked else []
        depth = max(DEPTH, MERGED * wanted.most)
        rankings = [Ranking(await self._by_words(query, Ranked(depth, wanted.files)), by_words or 1.0) for query in read]
        for each in asked:
            rankings += [Ranking(ids, by_meaning) for ids in await self._by_meaning(each, states, depth, wanted.files)]
        best = fuse(rankings)[: max(CANDIDATES, MERGED * wanted.most)]
        rows = await self._database.read(chunks.found(list(states), best))
        similarities = [await self._similarities(each, best) for each in asked]
        found = await asyncio.to_thread(
            _scored, [rows[id] for id in best if id in rows], read, similarities, (by_words or 1.0, by_meaning)
        )
        return of_many_files(merged([each for each in found if each.score >= wanted.threshold]), wanted.most)

    async def _query(self, states: Mapping[str, StoreState], text: str, most_words: int) -> Query:
        """What the words of a query weigh in these stores together."""
        words = (await asyncio.to_thread(words_of_query, text))[:most_words]
        terms = {term: word for word in words for store in states for term in terms_of_word(store, word)}
        counts = await self._database.read(chunks.count_terms(list(terms))) if terms else {}
        having = dict.fromkeys(words, 0)
        for term, number in counts.items():
            having[terms[term]] += number
        size = sum(state.chunks for state in states.values())
        rarities = {word: rarity(number, size) for word, number in having.items() if number}
        chosen = _rarest(having, MOST_PLACES)
        weights = {term: rarities[terms[term]] * share_of_level(level_of(term)) for term in counts if terms[term] in chosen}
        # Words that no chunk has are as rare as can be: a chunk cannot match such a query well.
        return Query(text, {word: rarities.get(word, rarity(0, size)) for word in words}, weights)

    async def _by_words(self, query: Query, wanted: Ranked) -> list[int]:
        return await self._database.read(chunks.rank(query.weights, wanted)) if query.weights else []

    async def _ask(self, states: Mapping[str, StoreState], queries: Sequence[str]) -> list[Asked]:
        """The queries as vectors of each model that has embedded chunks of these stores."""
        asked = []
        for model in sorted({model for state in states.values() for model in state.models}):
            embedder = self._of_model(model)
            vectors = await embedder.embed(queries, query=True) if embedder is not None else None
            if embedder is not None and vectors is not None:
                having = [store for store, state in states.items() if model in state.models]
                asked.append(Asked(model, having, vectors, embedder.words_weight))
        return asked

    def _of_model(self, model: str) -> Embedder | None:
        if self._embedder is not None and self._embedder.model == model:
            return self._embedder
        return self._embedder_of(model) if find_spec("numpy") is not None else None

    async def _by_meaning(
        self, asked: Asked, states: Mapping[str, StoreState], most: int, files: frozenset[tuple[str, str]] | None
    ) -> list[list[int]]:
        from antiphon.files.vector_stores.search.vectors import merged as nearest_of

        parts = []
        for store in asked.stores:
            of_store = None if files is None else {file for each, file in files if each == store}
            parts.append(await self._nearest(store, asked, states[store], WINDOWS_OF_CHUNK * most, of_store))
        best = nearest_of(parts, WINDOWS_OF_CHUNK * most)
        # A chunk is where the best of its windows is.
        return [list(dict.fromkeys(near.id // chunks.MOST_WINDOWS for near in ranking))[:most] for ranking in best]

    async def _nearest(
        self, store: str, asked: Asked, state: StoreState, most: int, files: Collection[str] | None
    ) -> "list[list[Near]]":
        if self._in_database is not None:
            found = await self._in_database.nearest(store, asked.model, state, asked.vectors, most, files)
            if found is not None:
                return found
        if self._cache is None:
            from antiphon.files.vector_stores.search.vector_cache import VectorCache

            self._cache = VectorCache(self._database, self._memory)
        return await self._cache.nearest(store, asked.model, state, asked.vectors, most, files)

    async def _similarities(self, asked: Asked, ids: Sequence[int]) -> dict[int, float]:
        """The cosine of each of these chunks with the query that is nearest to it."""
        stored = await self._database.read(chunks.vectors_of(asked.stores, asked.model, ids))
        return await asyncio.to_thread(_compare, stored, asked.vectors)


def _weights(wanted: Wanted, asked: Sequence[Asked]) -> tuple[float, float]:
    """Of words and of vectors. Where neither is wanted, both are."""
    usual = min((each.words_weight for each in asked), default=1.0) if wanted.embedding_weight is None else 1.0
    by_words = usual if wanted.text_weight is None else max(0.0, wanted.text_weight)
    by_meaning = 1.0 if wanted.embedding_weight is None else max(0.0, wanted.embedding_weight)
    return (by_words, by_meaning) if by_words or by_meaning else (1.0, 1.0)


def _terms(store: str, pieces: Sequence[Piece]) -> list[list[int]]:
    return [terms_of_text(store, f"{piece.context}\n{piece.text}") for piece in pieces]


def _new_chunks(store: str, pieces: Sequence[Piece], first: int) -> list[NewChunk]:
    terms = _terms(store, pieces)
    return [
        NewChunk(first + at, piece.text, terms[at], chunks.terms_to_text(terms[at]), context=piece.context, shared=piece.shared)
        for at, piece in enumerate(pieces)
    ]


def _storable(piece: Piece) -> Piece:
    """Half a character that takes two cannot be written."""
    return piece._replace(text=_writable(piece.text), context=_writable(piece.context))


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


async def _embed(embedder: Embedder, pieces: Sequence[Piece]) -> Sequence[Sequence[bytes] | None]:
    """The vectors of each. None: they cannot be made now."""
    windows = await embedder.windows(pieces)
    vectors = await embedder.embed([window for each in windows for window in each], query=False)
    if vectors is None:
        return [None] * len(pieces)
    rows = iter(await asyncio.to_thread(_to_bytes, vectors))
    return [list(islice(rows, len(each))) for each in windows]


def _to_bytes(vectors: "Vectors") -> list[bytes]:
    from antiphon.files.vector_stores.search.vectors import vector_to_bytes

    return [vector_to_bytes(vector) for vector in vectors]


def _rarest(having: Mapping[str, int], most: int) -> set[str]:
    """The rarest words, as long as they stand in few chunks together; one at least."""
    chosen: set[str] = set()
    for word, number in sorted(having.items(), key=lambda each: each[1]):
        most -= number
        if most >= 0 or not chosen:
            chosen.add(word)
    return chosen


def _compare(stored: Sequence[tuple[int, bytes]], queries: "Vectors") -> dict[int, float]:
    """Of the window that is nearest."""
    from antiphon.files.vector_stores.search.vectors import bytes_to_vector

    best: dict[int, float] = {}
    for id, data in stored:
        vector = bytes_to_vector(data)
        if len(vector) == queries.shape[1]:
            best[id] = max(best.get(id, -1.0), float((queries @ vector).max()))
    return best


def _scored(
    rows: Sequence[ChunkRow],
    queries: Sequence[Query],
    similarities: Sequence[Mapping[int, float]],
    weights: tuple[float, float],
) -> list[Found]:
    """The best first. Of equals, the one that was ranked first."""
    found = [
        Found(row.store, row.file, row.number, _score(row, queries, similarities, weights), row.text, row.shared)
        for row in rows
    ]
    return sorted(found, key=lambda each: -each.score)


def _score(
    row: ChunkRow, queries: Sequence[Query], similarities: Sequence[Mapping[int, float]], weights: tuple[float, float]
) -> float:
    shares = [share_of_words(f"{row.context}\n{row.text}", query.rarities) for query in queries]
    cosines = [each[row.id] for each in similarities if row.id in each]
    parts = [(max(shares), weights[0])] if shares else []
    parts += [(max(cosines), weights[1])] if cosines else []
    whole = sum(weight for _, weight in parts)
    score = sum(value * weight for value, weight in parts) / whole if whole else 0.0
    return min(1.0, max(0.0, score))
