"""Chunks are written, found by their words and their meaning, and removed: with every kind of database."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs
from support.embedders import SubjectEmbedder
from support.postgres import PostgresServer
from support.stores import Clock, interposed

from antiphon.files.vector_stores.search.chunk_index import EMBED_AGAIN, EMBEDDED_LATER, ChunkIndex
from antiphon.files.vector_stores.search.database_vectors import DatabaseVectors
from antiphon.files.vector_stores.search.found import Found, Piece, Wanted
from antiphon.store import Store, open_store
from antiphon.store.files import chunks, pgvector
from antiphon.store.operations import Operation, Statement

SERVERS = {"postgres": "postgres", "pgvector": "postgres_with_pgvector"}
WORDS = Wanted(embedding_weight=0)
MEANING = Wanted(text_weight=0)


@pytest.fixture(params=["sqlite", "postgres", "pgvector"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param != "sqlite":
        server: PostgresServer = request.getfixturevalue(SERVERS[request.param])
        with server.shared_database() as database:
            yield database
    else:
        yield f"sqlite:{tmp_path / 'responses.db'}"


@pytest.fixture
def embedder() -> SubjectEmbedder:
    return SubjectEmbedder()


@pytest_asyncio.fixture(autouse=True)
async def with_column(request: pytest.FixtureRequest, url: str) -> None:
    """What pgvector needs is there from the beginning: so all of the searches use it."""
    if "pgvector" in request.node.name:
        async with open_store(url, Clock()) as store:
            await store.files.database.maintain(pgvector.create())


def new_index(store: Store, *embedder: SubjectEmbedder | None, **options: Any) -> ChunkIndex:
    """As a gateway makes it."""
    database = options.pop("database", store.files.database)
    return ChunkIndex(database, *embedder, in_database=DatabaseVectors(store.files.database, memory=2**23), **options)


@pytest_asyncio.fixture
async def index(store: Store, embedder: SubjectEmbedder) -> AsyncIterator[ChunkIndex]:
    index = new_index(store, embedder)
    yield index
    await index.close()


def places(found: list[Found]) -> list[tuple[str, int]]:
    return [(each.file, each.number) for each in found]


def rows_of(table: str) -> Operation[int]:
    rows = yield Statement(f"SELECT count(*) FROM {table}")
    number: int = rows[0][0]
    return number


async def everything_left(store: Store) -> dict[str, int]:
    tables = (
        "chunks",
        "chunk_texts",
        "chunk_vectors",
        "chunk_windows",
        "chunks_without_vector",
        "chunk_stores",
        "chunk_models",
    )
    return {table: await store.files.database.read(rows_of(table)) for table in tables}


# ---- words -----------------------------------------------------------------------------------------------------------


async def test_a_chunk_is_found_by_its_words(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["The harbour was rebuilt in 1923.", "Nothing else happened there."])
    found = await index.search(["vs_1"], ["When was the harbour rebuilt?"], WORDS)
    assert places(found) == [("file-1", 0)]
    assert found[0].text == "The harbour was rebuilt in 1923."
    assert found[0].store == "vs_1"


async def test_a_rare_word_counts_more_than_a_common_one(index: ChunkIndex) -> None:
    common = [f"report about the budget number {number}" for number in range(20)]
    await index.add("vs_1", "file-1", [*common, "a xylophone"])
    found = await index.search(["vs_1"], ["budget report for the xylophone"], WORDS)
    assert places(found)[0] == ("file-1", 20)


async def test_a_word_that_is_repeated_counts_more(index: ChunkIndex) -> None:
    filler = " ".join(f"word{number}" for number in range(60))
    once, often = f"engine {filler}", f"engine engine engine engine engine engine {filler}"
    await index.add("vs_1", "file-1", [once, often])
    assert places(await index.search(["vs_1"], ["engine"], Wanted(most=1, embedding_weight=0))) == [("file-1", 1)]


async def test_endings_and_accents_and_case_do_not_matter(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["RUNNING engines", "Cafés in Zürich", "snake_case and maxNumResults"])
    for query, number in (("run engine", 0), ("cafe zurich", 1), ("results", 2), ("maxnumresults", 2), ("case", 2)):
        assert places(await index.search(["vs_1"], [query], WORDS)) == [("file-1", number)], query


# A text, and a part of it.
UNSPACED = (
    ("東京は日本の首都です。人口は約千四百万人です。", "日本の首都"),
    ("我们在图书馆学习人工智能。", "人工智能"),
    ("黒い猫が庭にいる", "猫"),
    ("기계 학습은 인공지능의 한 분야이다", "인공지능"),
    ("ประเทศไทยมีเมืองหลวงคือกรุงเทพมหานคร", "เมืองหลวง"),
    ("भारत की राजधानी नई दिल्ली है", "राजधानी"),
)


async def test_languages_without_spaces_are_found(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", [text for text, _ in UNSPACED])
    for number, (_, query) in enumerate(UNSPACED):
        assert places(await index.search(["vs_1"], [query], WORDS))[0] == ("file-1", number), query


SYNTAX = (
    *('"', "'", "(((", "*", "", "NEAR(harbour x)", "harbour AND NOT harbour", "text : harbour", "harbour*", "^harbour"),
    *("a\0harbour", "'; DROP TABLE chunks; --", "\ud800 harbour", "harbour:*", "!harbour & |", "{harbour}", "-harbour"),
)


async def test_a_query_is_words_and_never_syntax(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["The harbour was rebuilt."])
    for query in (*SYNTAX, "harbour " * 20_000):
        expected = [("file-1", 0)] if "harbour" in query else []
        assert places(await index.search(["vs_1"], [query], WORDS)) == expected, query[:100]


async def test_a_query_of_common_words_alone_still_finds(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["To be, or not to be", "that question"])
    assert places(await index.search(["vs_1"], ["to be or not to be"], WORDS)) == [("file-1", 0)]


async def test_other_stores_are_never_found_and_change_no_score(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["the harbour of the town", "the mill of the town"])
    alone = await index.search(["vs_1"], ["harbour town"], WORDS)
    await index.add("vs_2", "file-2", ["harbour harbour"] * 50)
    assert await index.search(["vs_1"], ["harbour town"], WORDS) == alone
    assert {each.store for each in await index.search(["vs_1"], ["harbour"], Wanted())} == {"vs_1"}


async def test_several_stores_are_searched_together(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["the harbour"])
    await index.add("vs_2", "file-1", ["the old harbour wall"])
    found = await index.search(["vs_1", "vs_2", "vs_none"], ["old harbour"], WORDS)
    assert [(each.store, each.file) for each in found] == [("vs_2", "file-1"), ("vs_1", "file-1")]


async def test_in_many_stores_only_the_first_words_of_long_queries_count(index: ChunkIndex) -> None:
    stores = [f"vs_{number}" for number in range(60)]
    for store in stores:
        await index.add(store, "file-1", ["the harbour", "the mill"])
    query = "harbour " + " ".join(f"word{number}" for number in range(100)) + " mill"
    assert places(await index.search(["vs_0"], [query], WORDS)) == [("file-1", 0), ("file-1", 1)]
    found = await index.search(stores, [query] * 10, WORDS)
    assert {each.number for each in found} == {0}


# ---- meaning, and both -----------------------------------------------------------------------------------------------


async def test_a_chunk_is_found_by_its_meaning(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["the bank gave a loan", "a kitten slept", "rain and wind"])
    found = await index.search(["vs_1"], ["feline"], Wanted(most=1))
    assert places(found) == [("file-1", 1)]


async def test_the_weights_decide_between_words_and_meaning(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["the kitten slept", "feline is a word"])
    await index.add("vs_1", "file-2", ["a credit union"])
    by_words = await index.search(["vs_1"], ["slept credit"], Wanted(most=1, text_weight=1, embedding_weight=0))
    by_meaning = await index.search(["vs_1"], ["slept money"], Wanted(most=1, text_weight=0, embedding_weight=1))
    assert places(by_words)[0][0] in {"file-1", "file-2"}
    assert places(by_meaning) == [("file-2", 0)]


async def test_what_both_find_is_first(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["a dog barks", "the puppy", "bread and a loaf of bread", "the bank puppy loan"])
    assert places(await index.search(["vs_1"], ["puppy"], Wanted()))[0] == ("file-1", 1)


async def test_several_queries_are_fused(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["harbour", "lighthouse", "mill"])
    found = await index.search(["vs_1"], ["harbour", "lighthouse"], WORDS)
    assert sorted(places(found)) == [("file-1", 0), ("file-1", 1)]


async def test_scores_are_between_0_and_1_and_the_best_is_first(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["cat and dog", "cat", "rain", "dog soup", "cat cat loan"])
    found = await index.search(["vs_1"], ["cat dog"], Wanted())
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert found[0].text == "cat and dog"
    assert found[0].score > 0.9


async def test_a_threshold_leaves_out_what_matches_badly_whatever_else_is_found(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["the harbour of the town", "storm", "a mill"])
    assert await index.search(["vs_1"], ["feline xylophone mill quartz"], Wanted(threshold=0.5)) == []
    assert places(await index.search(["vs_1"], ["harbour town"], Wanted(threshold=0.4, embedding_weight=0))) == [("file-1", 0)]


async def test_equals_are_found_in_the_order_of_the_file(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["the same cat"] * 30)
    for wanted in (Wanted(most=5), Wanted(most=5, text_weight=0), Wanted(most=5, embedding_weight=0)):
        assert places(await index.search(["vs_1"], ["cat"], wanted)) == [("file-1", number) for number in range(5)]


@pytest.mark.parametrize("wanted", [Wanted(), WORDS, MEANING])
async def test_of_allowed_files_as_many_are_found_as_there_are(index: ChunkIndex, wanted: Wanted) -> None:
    await index.add("vs_1", "file-many", ["cat cat cat"] * 300)
    await index.add("vs_1", "file-few", ["a cat, and much else that makes it longer", "another cat in a long text"])
    await index.add("vs_2", "file-few", ["the cat of another store"])
    allowed = frozenset({("vs_1", "file-few"), ("vs_1", "file-gone")})
    found = await index.search(["vs_1", "vs_2"], ["cat"], structs.replace(wanted, files=allowed))
    assert sorted((each.store, each.file, each.number) for each in found) == [("vs_1", "file-few", 0), ("vs_1", "file-few", 1)]


async def test_no_file_is_allowed(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["cat"])
    assert await index.search(["vs_1"], ["cat"], Wanted(files=frozenset())) == []


# ---- models ----------------------------------------------------------------------------------------------------------


async def test_without_an_embedder_there_are_words(store: Store) -> None:
    index = new_index(store, None)
    await index.add("vs_1", "file-1", ["a kitten", "the harbour"])
    assert places(await index.search(["vs_1"], ["harbour"], Wanted())) == [("file-1", 1)]
    assert await index.search(["vs_1"], ["feline"], Wanted()) == []


async def test_chunks_whose_vectors_cannot_be_made_are_found_by_words_and_embedded_later(
    index: ChunkIndex, embedder: SubjectEmbedder, clock: Clock
) -> None:
    embedder.is_away = True
    await index.add("vs_1", "file-1", ["a kitten", "the harbour"])
    assert await index.embed_later() == 0
    assert places(await index.search(["vs_1"], ["kitten"], Wanted())) == [("file-1", 0)]
    assert await index.search(["vs_1"], ["feline"], Wanted()) == []
    embedder.is_away = False
    asked = len(embedder.calls)
    assert await index.embed_later() == 0
    assert len(embedder.calls) == asked
    clock.forward(EMBED_AGAIN)
    assert await index.embed_later() == 2
    assert await index.embed_later() == 0
    assert places(await index.search(["vs_1"], ["feline"], Wanted(most=1))) == [("file-1", 0)]


async def test_a_search_whose_query_cannot_be_embedded_uses_words(index: ChunkIndex, embedder: SubjectEmbedder) -> None:
    await index.add("vs_1", "file-1", ["a kitten", "the harbour"])
    embedder.is_away = True
    for wanted in (Wanted(), MEANING):
        assert places(await index.search(["vs_1"], ["harbour"], wanted)) == [("file-1", 1)]


async def test_chunks_of_another_model_are_searched_with_that_model(store: Store, embedder: SubjectEmbedder) -> None:
    await new_index(store, embedder).add("vs_1", "file-1", ["a kitten"])
    other = SubjectEmbedder("other")
    index = new_index(store, other, embedder_of={"subjects": embedder}.get)
    await index.add("vs_1", "file-2", ["a bank"])
    assert places(await index.search(["vs_1"], ["feline"], Wanted(most=1, text_weight=0)))[0] == ("file-1", 0)
    assert places(await index.search(["vs_1"], ["loan"], Wanted(most=2, text_weight=0, threshold=0.5))) == [("file-2", 0)]


async def test_chunks_of_a_model_that_is_gone_are_found_by_words(store: Store, embedder: SubjectEmbedder) -> None:
    await new_index(store, SubjectEmbedder("gone")).add("vs_1", "file-1", ["a kitten"])
    index = new_index(store, embedder)
    assert places(await index.search(["vs_1"], ["kitten"], Wanted())) == [("file-1", 0)]


async def test_a_model_that_makes_other_vectors_now_does_not_break_a_search(store: Store, embedder: SubjectEmbedder) -> None:
    class Wider(SubjectEmbedder):
        async def embed(self, texts: Any, *, query: bool) -> Any:
            import numpy

            return numpy.ones((len(texts), 7), numpy.float32)

    index = new_index(store, embedder)
    await index.add("vs_1", "file-1", ["a kitten"])
    wider = new_index(store, Wider())
    await wider.add("vs_1", "file-2", ["a harbour"])
    for each in (index, wider):
        assert places(await each.search(["vs_1"], ["kitten"], Wanted()))[0] == ("file-1", 0)


# ---- writing, going on, removing -------------------------------------------------------------------------------------


async def test_indexing_goes_on_where_it_was_killed_and_writes_nothing_twice(index: ChunkIndex) -> None:
    texts = [f"chunk {number}" for number in range(250)]
    await index.add("vs_1", "file-1", texts[:120])
    done = await index.count("vs_1", "file-1")
    assert done == 120
    await index.add("vs_1", "file-1", texts[done:], first=done)
    await index.add("vs_1", "file-1", texts[200:], first=200)
    assert [text async for some in index.texts("vs_1", "file-1") for text in some] == texts
    assert len(await index.search(["vs_1"], ["chunk 240"], Wanted(most=1, embedding_weight=0))) == 1


async def test_a_write_has_few_chunks(store: Store, embedder: SubjectEmbedder) -> None:
    written: list[int] = []
    database, interference = interposed(store.files.database)

    async def write(operation: Operation[Any]) -> Any:
        result = await store.files.database.write(operation)
        written.append(await store.files.database.read(rows_of("chunks")))
        return result

    interference.instead["write"] = write
    index = ChunkIndex(database, embedder)
    await index.add("vs_1", "file-1", ["text"] * 250)
    await index.close()
    assert written == [100, 200, 250]


async def test_what_is_removed_is_not_found_and_leaves_nothing(index: ChunkIndex, store: Store) -> None:
    await index.add("vs_1", "file-1", ["a cat"] * 150)
    await index.add("vs_1", "file-2", ["a cat too"])
    assert len(await index.search(["vs_1"], ["cat"], Wanted(most=50))) == 50
    await index.remove("vs_1", "file-1")
    for wanted in (Wanted(), WORDS, MEANING):
        assert places(await index.search(["vs_1"], ["cat"], wanted)) == [("file-2", 0)]
    assert await index.count("vs_1", "file-1") == 0
    await index.remove_store("vs_1")
    assert await index.search(["vs_1"], ["cat"], Wanted()) == []
    assert set((await everything_left(store)).values()) == {0}


async def test_removing_takes_the_words_out_of_the_index(index: ChunkIndex, store: Store) -> None:
    from antiphon.files.vector_stores.search.words import terms_of_word

    await index.add("vs_1", "file-1", ["harbour", "harbour mill"])
    terms = terms_of_word("vs_1", "harbour")
    assert sum((await store.files.database.read(chunks.count_terms(terms))).values()) == 2
    await index.remove("vs_1", "file-1")
    assert await store.files.database.read(chunks.count_terms(terms)) == {}


async def test_the_same_file_in_two_stores_is_removed_from_one(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", ["a cat"])
    await index.add("vs_2", "file-1", ["a cat"])
    await index.remove("vs_1", "file-1")
    assert await index.search(["vs_1"], ["cat"], Wanted()) == []
    assert len(await index.search(["vs_2"], ["cat"], Wanted())) == 1


async def test_what_another_gateway_adds_and_removes_is_seen(store: Store, url: str) -> None:
    async with open_store(url, Clock()) as opened:
        here, there = (new_index(each, SubjectEmbedder()) for each in (store, opened))
        await here.add("vs_1", "file-1", ["a cat"])
        assert len(await here.search(["vs_1"], ["feline"], MEANING)) == 1
        await there.add("vs_1", "file-2", ["a kitten"])
        assert len(await here.search(["vs_1"], ["feline"], MEANING)) == 2
        await there.remove("vs_1", "file-1")
        assert places(await here.search(["vs_1"], ["feline"], MEANING)) == [("file-2", 0)]


STRANGE = ["", "a\0b", "ﬁne ÅNGSTRÖM", "e\u0301", "x" * 5000, "ⅧⅨ ½", "👩‍👩‍👧 🇩🇪", "ก็", "\ud800", "İstanbul", "ß"]


async def test_any_text_is_taken_and_removed_completely(index: ChunkIndex, store: Store) -> None:
    for number, text in enumerate(STRANGE):
        await index.add(f"vs_{number}", "file-1", [text, f"harbour {text}"])
        found = await index.search([f"vs_{number}"], [f"{text} harbour"], Wanted())
        assert ("file-1", 1) in places(found), text[:100]
        await index.remove_store(f"vs_{number}")
    assert set((await everything_left(store)).values()) == {0}


async def test_a_chunk_of_another_store_is_not_shown_even_if_its_id_is_known(index: ChunkIndex, store: Store) -> None:
    """Two terms may be the same number by chance."""
    await index.add("vs_1", "file-1", ["the harbour"])
    await index.add("vs_2", "file-2", ["a secret"])
    shown = await store.files.database.read(chunks.found(["vs_1"], [1, 2]))
    assert [row.file for row in shown.values()] == ["file-1"]


# ---- passages --------------------------------------------------------------------------------------------------------


async def test_chunks_that_overlap_are_found_as_one_passage(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", [Piece("a cat and a dog"), Piece("a dog and a puppy", shared=5), "a cat"])
    found = await index.search(["vs_1"], ["cat dog puppy"], Wanted())
    assert [(each.number, each.text) for each in found] == [(0, "a cat and a dog and a puppy"), (2, "a cat")]


async def test_one_file_does_not_take_all_places_if_others_match(index: ChunkIndex) -> None:
    await index.add("vs_1", "file-1", [f"a cat, number {number}" for number in range(10)])
    await index.add("vs_1", "file-2", ["a long text about something else that also has a cat"])
    files = [each.file for each in await index.search(["vs_1"], ["cat"], Wanted(most=5, embedding_weight=0))]
    assert sorted(files) == ["file-1"] * 4 + ["file-2"]


async def test_a_chunk_is_found_by_the_headings_above_it_and_removed_completely(index: ChunkIndex, store: Store) -> None:
    pieces = [Piece("It is cleaned once a year.", "Filter > Cleaning"), Piece("It is filled once a year.", "Tank")]
    await index.add("vs_1", "file-1", pieces)
    found = await index.search(["vs_1"], ["filter"], WORDS)
    assert [(each.number, each.text) for each in found] == [(0, "It is cleaned once a year.")]
    await index.remove("vs_1", "file-1")
    await index.remove_store("vs_1")
    assert set((await everything_left(store)).values()) == {0}
    await index.add("vs_1", "file-2", ["Nothing of this kind."])
    assert await index.search(["vs_1"], ["filter"], WORDS) == []


class InWords(SubjectEmbedder):
    """Reads three words at once."""

    async def windows(self, pieces: Sequence[Piece]) -> list[list[str]]:
        parted = [piece.text.split() for piece in pieces]
        return [[" ".join(words[at : at + 3]) for at in range(0, len(words), 3)] for words in parted]


async def test_a_chunk_is_as_near_as_the_nearest_of_its_windows(store: Store) -> None:
    index = new_index(store, InWords())
    await index.add(
        "vs_1", "file-1", ["rain and storm then bread and soup then money in the bank", "cat and money", "soup of cat"]
    )
    found = await index.search(["vs_1"], ["dinner"], MEANING)
    assert places(found)[0] == ("file-1", 0)
    assert found[0].score > 0.99
    await index.close()


async def test_windows_that_are_made_later_are_found_like_others(store: Store) -> None:
    embedder = InWords()
    index = new_index(store, embedder)
    embedder.is_away = True
    await index.add("vs_1", "file-1", ["rain and storm then bread and soup"])
    embedder.is_away = False
    assert await index.embed_later() == 1
    assert [round(each.score, 2) for each in await index.search(["vs_1"], ["dinner"], MEANING)] == [1.0]
    await index.close()


async def test_vectors_of_earlier_versions_are_still_found(index: ChunkIndex, store: Store) -> None:
    await index.add("vs_1", "file-1", ["a cat", "a bank"])
    await store.files.database.write(moved_to_the_old_table())
    assert places(await index.search(["vs_1"], ["kitten"], Wanted(most=1, text_weight=0))) == [("file-1", 0)]
    await index.remove("vs_1", "file-1")
    assert (await everything_left(store))["chunk_vectors"] == 0


def moved_to_the_old_table() -> Operation[None]:
    yield Statement(
        "INSERT INTO chunk_vectors (store, model, id, file, vector) SELECT store, model, id, file, vector FROM chunk_windows"
    )
    yield Statement("DELETE FROM chunk_windows")


# ---- another model ---------------------------------------------------------------------------------------------------


async def test_another_model_takes_over_chunk_by_chunk_while_all_are_found(store: Store) -> None:
    before, after = SubjectEmbedder("before"), InWords("after")
    names = [f"file-{number}" for number in range(EMBEDDED_LATER + 5)]
    index = new_index(store, before)
    for name in names:
        await index.add("vs_1", name, ["rain then a cat sat"])
    await index.close()
    index = new_index(store, after, embedder_of={"before": before}.get, embeds_again=True)
    models, made = [], -1
    while made:
        states = await store.files.database.read(chunks.states(["vs_1"]))
        models.append(states["vs_1"].models)
        found = await index.search(["vs_1"], ["kitten"], Wanted(most=len(names), text_weight=0))
        assert sorted(each.file for each in found) == sorted(names)
        made = await index.embed_later()
    assert models == [("before",), ("after", "before"), ("after",)]
    await index.close()


async def test_a_model_that_is_away_leaves_the_vectors_of_the_other_one(store: Store) -> None:
    before, after = SubjectEmbedder("before"), SubjectEmbedder("after")
    await new_index(store, before).add("vs_1", "file-1", ["a cat"])
    after.is_away = True
    index = new_index(store, after, embedder_of={"before": before}.get, embeds_again=True)
    assert await index.embed_later() == 0
    assert places(await index.search(["vs_1"], ["kitten"], MEANING)) == [("file-1", 0)]
    await index.close()
