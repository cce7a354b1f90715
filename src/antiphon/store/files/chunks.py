"""The chunks of files in vector stores: adding and removing them, and reading what a search needs."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from antiphon.store.operations import Change, Many, Operation, PostgresOnly, Row, SqliteOnly, Statement, in_groups, placeholders

# The most vectors in one read.
MOST_VECTORS = 2_000


class NewChunk(NamedTuple):
    number: int
    text: str
    # See `core.chunk_words`.
    terms: Sequence[int]
    # The same for SQLite, by `terms_to_text`: it is made beforehand, because operations on Postgres run in the event loop.
    words: str
    # Of the model, one for each window of the text. None: they are made later.
    vectors: Sequence[bytes] | None = None
    # What was indexed with the text, though it is not in it: the title of its file, and the headings above it.
    context: str = ""
    # How many of its first characters are also in the chunk before.
    shared: int = 0


class StoreState(Struct, frozen=True):
    """What is cached of a store is up to date as long as this is the same."""

    chunks: int = 0
    additions: int = 0
    changes: int = 0
    models: tuple[str, ...] = ()


class ChunkRow(NamedTuple):
    id: int
    store: str
    file: str
    number: int
    text: str
    context: str = ""
    shared: int = 0


# A chunk has fewer vectors than this. The place of a vector is the id of its chunk times this, and its number among them.
MOST_WINDOWS = 256


class VectorRow(NamedTuple):
    # Its place.
    id: int
    file: str
    vector: bytes


class Ranked(NamedTuple):
    """The restriction of a search by words: how many are wanted, and of which files. None: of all."""

    most: int
    files: Collection[tuple[str, str]] | None = None


# ---- adding ----------------------------------------------------------------------------------------------------------

# It also locks the row: concurrent writers of one store get their ids in the order in which they commit.
BEGIN_CHANGE = """
INSERT INTO chunk_stores (store, {column}) VALUES ($1, 1)
ON CONFLICT (store) DO UPDATE SET {column} = chunk_stores.{column} + 1
"""
COUNT = "UPDATE chunk_stores SET chunks = chunks + $2 WHERE store = $1"
PUT_WORDS = SqliteOnly("INSERT INTO chunk_words (rowid, words) VALUES ($1, $2)")
PUT_WORD_NUMBERS = PostgresOnly("INSERT INTO chunk_words (id, words) VALUES ($1, $2)")
PUT_VECTOR = """
INSERT INTO chunk_windows (store, model, id, number, file, vector) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING
"""
# The vectors that versions before windows made, one a chunk, are in a table of their own.
VECTOR_TABLES = ("chunk_vectors", "chunk_windows")


def add(store: str, file: str, chunks: Sequence[NewChunk], model: str | None, put_vector: str = PUT_VECTOR) -> Operation[int]:
    """How many were added: those that are there already stay as they are. `model`: of the vectors, and of those that are
    missing. None: there are none, and none are wanted. `put_vector`: the statement that writes one."""
    yield Change(BEGIN_CHANGE.format(column="additions"), (store,))
    ids: dict[int, int] = {}
    for group in in_groups(chunks, 100):
        rows = ", ".join(f"($1, $2, ${at})" for at in range(3, 3 + len(group)))
        added = yield Statement(
            f"INSERT INTO chunks (store, file, number) VALUES {rows} ON CONFLICT DO NOTHING RETURNING number, id",
            (store, file, *(chunk.number for chunk in group)),
        )
        ids.update((row[0], row[1]) for row in added)
    new = [(ids[chunk.number], chunk) for chunk in chunks if chunk.number in ids]
    yield Many(
        "INSERT INTO chunk_texts (id, text, context, shared) VALUES ($1, $2, $3, $4)",
        [(id, chunk.text, chunk.context, chunk.shared) for id, chunk in new],
    )
    yield Many(PUT_WORDS, [(id, chunk.words) for id, chunk in new])
    yield Many(PUT_WORD_NUMBERS, [(id, list(chunk.terms)) for id, chunk in new])
    if model is not None:
        yield from _put_vectors(store, model, [(id, file, chunk.vectors) for id, chunk in new], put_vector)
    yield Change(COUNT, (store, len(new)))
    return len(new)


def _put_vectors(
    store: str, model: str, vectors: Sequence[tuple[int, str, Sequence[bytes] | None]], put_vector: str
) -> Operation[None]:
    made: list[Row] = [
        (store, model, id, number, file, vector)
        for id, file, windows in vectors
        for number, vector in enumerate((windows or ())[:MOST_WINDOWS])
    ]
    if made:
        yield Change("INSERT INTO chunk_models (store, model) VALUES ($1, $2) ON CONFLICT DO NOTHING", (store, model))
        yield Many(put_vector, made)
    missing: list[Row] = [(id, store) for id, _, windows in vectors if windows is None]
    yield Many("INSERT INTO chunks_without_vector (id, store) VALUES ($1, $2) ON CONFLICT DO NOTHING", missing)


def terms_to_text(terms: Iterable[int]) -> str:
    """For SQLite, which indexes words."""
    return " ".join(map(term_to_word, terms))


def term_to_word(term: int) -> str:
    return f"{term & (1 << 64) - 1:016x}"


# ---- vectors that are made later -------------------------------------------------------------------------------------


def without_vector(most: int) -> Operation[list[ChunkRow]]:
    rows = yield Statement(
        """
        SELECT c.id, c.store, c.file, c.number, t.text, t.context, t.shared FROM chunks_without_vector w
        JOIN chunks c ON c.id = w.id JOIN chunk_texts t ON t.id = w.id
        ORDER BY w.id LIMIT $1
        """,
        (most,),
    )
    return [ChunkRow(*row) for row in rows]


def put_later(
    store: str, model: str, vectors: Sequence[tuple[int, str, Sequence[bytes]]], put_vector: str = PUT_VECTOR
) -> Operation[None]:
    """(id, file, vectors). Of a chunk that has been removed meanwhile, nothing is written."""
    yield Change(BEGIN_CHANGE.format(column="changes"), (store,))
    for group in in_groups(vectors):
        ids = [id for id, _, _ in group]
        rows = yield Statement(f"DELETE FROM chunks_without_vector WHERE id IN ({placeholders(1, len(ids))}) RETURNING id", ids)
        waiting = {row[0] for row in rows}
        yield from _put_vectors(store, model, [each for each in group if each[0] in waiting], put_vector)


def of_other_models(model: str, after: int, most: int) -> Operation[list[ChunkRow]]:
    """Those after an id that other models have embedded, and this one has not."""
    made = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} v WHERE v.store = c.store AND v.model = $1 AND v.id = c.id)"
        for table in VECTOR_TABLES
    )
    rows = yield Statement(
        f"""
        SELECT c.id, c.store, c.file, c.number, t.text, t.context, t.shared FROM chunks c JOIN chunk_texts t ON t.id = c.id
        WHERE c.id > $2 AND {made}
        AND c.store IN (SELECT store FROM chunk_models WHERE model <> $1)
        AND NOT EXISTS (SELECT 1 FROM chunks_without_vector w WHERE w.id = c.id)
        ORDER BY c.id LIMIT $3
        """,
        (model, after, most),
    )
    return [ChunkRow(*row) for row in rows]


def replace(
    store: str, model: str, vectors: Sequence[tuple[int, str, Sequence[bytes]]], put_vector: str = PUT_VECTOR
) -> Operation[None]:
    """(id, file, vectors), in place of those of other models. Of a chunk that was removed meanwhile, nothing is written."""
    yield Change(BEGIN_CHANGE.format(column="changes"), (store,))
    others = [
        row[0] for row in (yield Statement("SELECT model FROM chunk_models WHERE store = $1", (store,))) if row[0] != model
    ]
    for group in in_groups(vectors):
        ids = [id for id, _, _ in group]
        rows = yield Statement(f"SELECT id FROM chunks WHERE id IN ({placeholders(1, len(ids))})", ids)
        there = {row[0] for row in rows}
        for table in VECTOR_TABLES:
            for other in others:
                listed = placeholders(3, len(ids))
                yield Change(f"DELETE FROM {table} WHERE store = $1 AND model = $2 AND id IN ({listed})", (store, other, *ids))
        yield from _put_vectors(store, model, [each for each in group if each[0] in there], put_vector)
    for other in others:
        left = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} WHERE store = $1 AND model = $2)" for table in VECTOR_TABLES)
        yield Change(f"DELETE FROM chunk_models WHERE store = $1 AND model = $2 AND {left}", (store, other))


# ---- removing --------------------------------------------------------------------------------------------------------


class Removable(NamedTuple):
    id: int
    # To remove its words, SQLite has to be given them once more. Postgres has not.
    text: str | None
    context: str = ""


def removable(store: str, file: str | None, most: int) -> Operation[list[Removable]]:
    """`file`: None for all files of the store."""
    condition = "c.store = $1" if file is None else "c.store = $1 AND c.file = $2"
    values = [store] if file is None else [store, file]
    limited = f"WHERE {condition} ORDER BY c.store, c.file, c.number LIMIT ${len(values) + 1}"
    texts = SqliteOnly(f"SELECT c.id, t.text, t.context FROM chunks c JOIN chunk_texts t ON t.id = c.id {limited}")
    with_texts = yield Statement(texts, [*values, most])
    ids = yield Statement(PostgresOnly(f"SELECT c.id FROM chunks c {limited}"), [*values, most])
    return [Removable(*row) for row in with_texts] + [Removable(row[0], None) for row in ids]


REMOVE_WORDS = SqliteOnly("INSERT INTO chunk_words (chunk_words, rowid, words) VALUES ('delete', $1, $2)")


def remove(store: str, terms: Mapping[int, Sequence[int]]) -> Operation[int]:
    """Chunks by their ids, with their terms; for Postgres, without. How many were removed."""
    yield Change(BEGIN_CHANGE.format(column="changes"), (store,))
    removed: list[int] = []
    for group in in_groups(list(terms)):
        rows = yield Statement(f"DELETE FROM chunks WHERE id IN ({placeholders(1, len(group))}) RETURNING id", group)
        removed += [row[0] for row in rows]
    yield Many(REMOVE_WORDS, [(id, terms_to_text(terms[id])) for id in removed])
    for group in in_groups(removed):
        ids = placeholders(1, len(group))
        yield Change(PostgresOnly(f"DELETE FROM chunk_words WHERE id IN ({ids})"), group)
        yield Change(f"DELETE FROM chunk_texts WHERE id IN ({ids})", group)
        yield Change(f"DELETE FROM chunks_without_vector WHERE id IN ({ids})", group)
        models = yield Statement("SELECT model FROM chunk_models WHERE store = $1", (store,))
        for (model,) in models:
            ids = placeholders(3, len(group))
            for table in VECTOR_TABLES:
                of_model = f"DELETE FROM {table} WHERE store = $1 AND model = $2 AND id IN ({ids})"
                yield Change(of_model, (store, model, *group))
    yield Change(COUNT, (store, -len(removed)))
    return len(removed)


def forget_store(store: str) -> Operation[None]:
    """When it has no chunks any more."""
    yield Change("DELETE FROM chunk_models WHERE store = $1", (store,))
    yield Change("DELETE FROM chunk_stores WHERE store = $1 AND chunks = 0", (store,))


# ---- reading ---------------------------------------------------------------------------------------------------------


def count(store: str, file: str) -> Operation[int]:
    rows = yield Statement("SELECT count(*) FROM chunks WHERE store = $1 AND file = $2", (store, file))
    number: int = rows[0][0]
    return number


def texts(store: str, file: str, after: int, most: int) -> Operation[list[tuple[int, str]]]:
    """(number, text), those after a number."""
    rows = yield Statement(
        """
        SELECT c.number, t.text FROM chunks c JOIN chunk_texts t ON t.id = c.id
        WHERE c.store = $1 AND c.file = $2 AND c.number > $3 ORDER BY c.number LIMIT $4
        """,
        (store, file, after, most),
    )
    return [(row[0], row[1]) for row in rows]


def states(stores: Sequence[str]) -> Operation[dict[str, StoreState]]:
    """Of those that have any chunks."""
    found: dict[str, StoreState] = {}
    for group in in_groups(stores):
        listed = placeholders(1, len(group))
        rows = yield Statement(f"SELECT store, model FROM chunk_models WHERE store IN ({listed}) ORDER BY model", group)
        models: dict[str, tuple[str, ...]] = {}
        for store, model in rows:
            models[store] = (*models.get(store, ()), model)
        rows = yield Statement(
            f"SELECT store, chunks, additions, changes FROM chunk_stores WHERE store IN ({listed}) AND chunks > 0", group
        )
        found |= {row[0]: StoreState(row[1], row[2], row[3], models.get(row[0], ())) for row in rows}
    return found


def vectors(store: str, model: str, after: int, most: int = MOST_VECTORS) -> Operation[list[VectorRow]]:
    """In the order of their places, those after one."""
    id, number = divmod(after, MOST_WINDOWS)
    old = yield Statement(
        """
        SELECT id, 0, file, vector FROM chunk_vectors
        WHERE store = $1 AND model = $2 AND id > $3 ORDER BY id LIMIT $4
        """,
        (store, model, id, most),
    )
    new = yield Statement(
        """
        SELECT id, number, file, vector FROM chunk_windows
        WHERE store = $1 AND model = $2 AND (id, number) > ($3, $4) ORDER BY id, number LIMIT $5
        """,
        (store, model, id, number, most),
    )
    rows = [VectorRow(row[0] * MOST_WINDOWS + row[1], row[2], row[3]) for row in (*old, *new)]
    return sorted(rows, key=lambda row: row.id)[:most]


def vectors_of(stores: Sequence[str], model: str, ids: Sequence[int]) -> Operation[list[tuple[int, bytes]]]:
    """(id of the chunk, vector)."""
    found: list[tuple[int, bytes]] = []
    for store in stores:
        for group in in_groups(ids):
            listed = placeholders(3, len(group))
            for table in VECTOR_TABLES:
                rows = yield Statement(
                    f"SELECT id, vector FROM {table} WHERE store = $1 AND model = $2 AND id IN ({listed})",
                    (store, model, *group),
                )
                found += [(row[0], row[1]) for row in rows]
    return found


def found(stores: Sequence[str], ids: Sequence[int]) -> Operation[dict[int, ChunkRow]]:
    """By id, those that are in these stores."""
    rows_by_id: dict[int, ChunkRow] = {}
    for group in in_groups(ids):
        rows = yield Statement(
            f"""
            SELECT c.id, c.store, c.file, c.number, t.text, t.context, t.shared
            FROM chunks c JOIN chunk_texts t ON t.id = c.id
            WHERE c.id IN ({placeholders(1, len(group))})
            """,
            group,
        )
        rows_by_id |= {row[0]: ChunkRow(*row) for row in rows if row[1] in stores}
    return rows_by_id


# Each word is counted for itself: to group them, SQLite would sort all that it finds.
COUNT_TERMS = SqliteOnly("""
SELECT value, (SELECT count(*) FROM chunk_words WHERE chunk_words MATCH value) FROM json_each($1)
""")
COUNT_TERM_NUMBERS = PostgresOnly("""
SELECT asked.term, count(*) FROM unnest($1::bigint[]) AS asked (term)
JOIN chunk_words w ON w.words @> ARRAY[asked.term] GROUP BY asked.term
""")


def count_terms(terms: Sequence[int]) -> Operation[dict[int, int]]:
    """How many chunks have each of them. Those that none has are not in the answer."""
    by_word = {term_to_word(term): term for term in terms}
    words = yield Statement(COUNT_TERMS, (json.dumps(list(by_word)),))
    numbers = yield Statement(COUNT_TERM_NUMBERS, (list(terms),))
    return {by_word[row[0]]: row[1] for row in words if row[1]} | {row[0]: row[1] for row in numbers}


# CROSS JOIN: SQLite asks the index once for each word.
RANK_WORDS = """
WITH asked (word, weight) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each($1)
), ranked (id, score) AS (
    SELECT chunk_words.rowid, sum(asked.weight) FROM asked CROSS JOIN chunk_words
    WHERE chunk_words MATCH asked.word GROUP BY chunk_words.rowid
)
SELECT ranked.id FROM ranked {condition} ORDER BY ranked.score DESC, ranked.id LIMIT $2
"""
RANK_ALL = SqliteOnly(RANK_WORDS.format(condition=""))
RANK_FILES = SqliteOnly(
    RANK_WORDS.format(
        condition="CROSS JOIN chunks c ON c.id = ranked.id WHERE c.store || ' ' || c.file IN (SELECT value FROM json_each($3))"
    )
)
RANK_WORD_NUMBERS = """
WITH ranked AS MATERIALIZED (
    SELECT w.id, sum(asked.weight) AS score FROM unnest($1::bigint[], $2::double precision[]) AS asked (term, weight)
    JOIN chunk_words w ON w.words @> ARRAY[asked.term] GROUP BY w.id
)
SELECT ranked.id FROM ranked {condition} ORDER BY ranked.score DESC, ranked.id LIMIT $3
"""
RANK_ALL_NUMBERS = PostgresOnly(RANK_WORD_NUMBERS.format(condition=""))
RANK_FILE_NUMBERS = PostgresOnly(
    RANK_WORD_NUMBERS.format(
        condition="""
        JOIN chunks c ON c.id = ranked.id
        JOIN unnest($4::text[], $5::text[]) AS allowed (store, file) ON c.store = allowed.store AND c.file = allowed.file
        """
    )
)


def rank(weights: Mapping[int, float], wanted: Ranked) -> Operation[list[int]]:
    """The ids of the chunks whose terms weigh most. Of equals, the lower id is first."""
    asked = json.dumps([(term_to_word(term), weight) for term, weight in weights.items()])
    numbers = (list(weights), list(weights.values()), wanted.most)
    if wanted.files is None:
        by_words = yield Statement(RANK_ALL, (asked, wanted.most))
        by_numbers = yield Statement(RANK_ALL_NUMBERS, numbers)
    else:
        files = sorted(wanted.files)
        by_words = yield Statement(RANK_FILES, (asked, wanted.most, json.dumps([" ".join(each) for each in files])))
        by_numbers = yield Statement(RANK_FILE_NUMBERS, (*numbers, *([each[at] for each in files] for at in (0, 1))))
    return [row[0] for row in (*by_words, *by_numbers)]
