"""Vectors in a column of pgvector's, beside their bytes: Postgres itself finds the nearest of them.

The bytes stay. So a gateway that does not know the column goes on as before, and what it adds gets the column's value later.
One column has vectors of all models, whatever their widths; each model has an index of its own, which is partial.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isqrt
from typing import NamedTuple

from msgspec import Struct

from antiphon.store.files.chunks import MOST_WINDOWS, PUT_VECTOR, VECTOR_TABLES, VectorRow
from antiphon.store.operations import Change, Operation, PostgresOnly, Statement

# Iterative scans: before them, a filter left less than was wanted.
OLDEST = (0, 8)
# What pgvector has an index for, in numbers of half precision.
WIDEST = 4_000
# The bytes of a vector begin with its scale. Its direction is all that a cosine needs, so the scale is left out here.
SCALE_BYTES = 4
NARROW = f"length(vector) <= {WIDEST + SCALE_BYTES}"
NUMBERS = "CAST(CAST(array_agg((get_byte({vector}, at) + 128) % 256 - 128 ORDER BY at) AS integer[]) AS {schema}.halfvec)"
EMBEDDING = f"(SELECT {NUMBERS} FROM generate_series({SCALE_BYTES}, length({{vector}}) - 1) AS at)"
MISSING = "not_embedded"
NEAREST = "hnsw"
# The number is arbitrary. Who has it changes tables and indexes.
LOCK = 0x416E7665
# Others wait behind a change of a table that waits itself.
LOCK_TIMEOUT = "2s"


class IndexState(NamedTuple):
    is_valid: bool
    # About how many; by its last analysis.
    rows: int


class Column(Struct, frozen=True):
    """What a database has of all this. `schema`: of the extension; None: it is not there, or too old."""

    schema: str | None = None
    # It is not there, and can be created.
    is_available: bool = False
    tables: frozenset[str] = frozenset()
    indexes: Mapping[str, IndexState] = {}

    @property
    def is_ready(self) -> bool:
        """Rows that lack the value are found fast."""
        return self.schema is not None and all(self.has(_index(table, MISSING)) for table in VECTOR_TABLES)

    def has(self, index: str) -> bool:
        return index in self.indexes and self.indexes[index].is_valid


def look() -> Operation[Column]:
    """In another database there is nothing of it."""
    found = yield Statement(
        PostgresOnly("""
        SELECT quote_ident(n.nspname), e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'
        """)
    )
    if not found:
        offered = yield Statement(PostgresOnly("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"))
        return Column(is_available=bool(offered) and _is_new(offered[0][0]))
    if not _is_new(found[0][1]):
        return Column()
    tables = yield Statement(
        PostgresOnly("""
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = current_schema()::regnamespace AND a.attname = 'embedding' AND NOT a.attisdropped
        """)
    )
    indexes = yield Statement(
        PostgresOnly("""
        SELECT c.relname, i.indisvalid, greatest(c.reltuples, 0)::bigint FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = current_schema()::regnamespace
        """)
    )
    return Column(
        found[0][0], False, frozenset(row[0] for row in tables), {row[0]: IndexState(row[1], row[2]) for row in indexes}
    )


def _is_new(version: str) -> bool:
    return tuple(int(part) for part in version.split(".")[:2]) >= OLDEST


def _index(table: str, kind: str) -> str:
    return f"{table}_{kind}"


def index_of_model(table: str, model: str, width: int) -> str:
    """A name has 63 bytes at most, and that of a model may have more."""
    return _index(table, f"{NEAREST}_{width}_{sha256(model.encode()).hexdigest()[:16]}")


def _literal(text: str) -> str:
    """A partial index is used only if the statement itself has the value."""
    escaped = text.replace("\0", "\ufffd").replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


# ---- what is made of a database --------------------------------------------------------------------------------------


def _locked() -> Operation[bool]:
    """The end of the connection unlocks it."""
    yield Statement("SELECT set_config('statement_timeout', '0', false)")
    return bool((yield Statement("SELECT pg_try_advisory_lock($1)", (LOCK,)))[0][0])


def have_vectors() -> Operation[bool]:
    return bool((yield Statement("SELECT 1 FROM chunk_models LIMIT 1")))


def create() -> Operation[None]:
    """The extension, the column, and an index of the rows that lack its value; whatever is not there. Not in a transaction."""
    if not (yield from _locked()):
        return
    column = yield from look()
    if column.schema is None and column.is_available:
        yield from _create_extension()
        column = yield from look()
    if column.schema is None:
        return
    yield Statement("SELECT set_config('lock_timeout', $1, false)", (LOCK_TIMEOUT,))
    for table in VECTOR_TABLES:
        if table not in column.tables:
            yield Statement(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS embedding {column.schema}.halfvec")
    yield Statement("SELECT set_config('lock_timeout', '0', false)")
    for table in VECTOR_TABLES:
        name = _index(table, MISSING)
        yield from _create_index(column, name, f"ON {table} (store, model) WHERE embedding IS NULL AND {NARROW}")


def _create_extension() -> Operation[None]:
    """A database has it once. In a schema of ours, other programs would not find its types, and would lose them with ours."""
    has_public = yield Statement("SELECT 1 FROM pg_namespace WHERE nspname = 'public'")
    yield Statement(f"CREATE EXTENSION IF NOT EXISTS vector{' SCHEMA public' if has_public else ''}")


def _create_index(column: Column, name: str, definition: str) -> Operation[None]:
    """While others read and write. One that was interrupted is there, and of no use."""
    if name in column.indexes and not column.has(name):
        yield Statement(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    yield Statement(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} {definition}")


def fill(schema: str, most: int) -> Operation[int]:
    """Some of the rows that lack the value. How many."""
    number = 0
    for table in VECTOR_TABLES:
        changed = yield Change(
            f"""
            UPDATE {table} SET embedding = {EMBEDDING.format(vector="vector", schema=schema)}
            WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM {table} WHERE embedding IS NULL AND {NARROW} LIMIT $1 FOR UPDATE SKIP LOCKED
            ))
            """,
            (most,),
        )
        number += changed[0][0]
    return number


def put_vector(schema: str) -> str:
    """The statement that writes a vector with the value of the column; without it if that vector is too wide."""
    value = f"CASE WHEN length($6::bytea) <= {WIDEST + SCALE_BYTES} THEN {EMBEDDING.format(vector='$6', schema=schema)} END"
    return PUT_VECTOR.replace("vector)", "vector, embedding)").replace("$6)", f"$6, {value})")


class ModelIndex(NamedTuple):
    """An index that is to be there."""

    table: str
    model: str
    width: int

    @property
    def name(self) -> str:
        return index_of_model(*self)


def wanted_indexes(fewest: int) -> Operation[list[ModelIndex]]:
    """Of the models that have embedded so many chunks."""
    models = yield Statement(
        """
        SELECT m.model FROM chunk_models m JOIN chunk_stores s ON s.store = m.store
        GROUP BY m.model HAVING sum(s.chunks) >= $1
        """,
        (fewest,),
    )
    wanted = []
    for (model,) in models:
        for table in VECTOR_TABLES:
            rows = yield Statement(
                f"""
                SELECT length(v.vector) FROM chunk_models m JOIN {table} v ON v.store = m.store AND v.model = m.model
                WHERE m.model = $1 AND v.embedding IS NOT NULL LIMIT 1
                """,
                (model,),
            )
            wanted += [ModelIndex(table, model, row[0] - SCALE_BYTES) for row in rows]
    return wanted


def build(wanted: ModelIndex, memory: int, *, alone: bool = False) -> Operation[None]:
    """Not in a transaction. `memory`: in bytes; beyond it, the index grows more slowly. `alone`: by one process, which needs no
    shared memory."""
    if not (yield from _locked()):
        return
    column = yield from look()
    enough = "pg_size_bytes(current_setting('maintenance_work_mem')) < $1"
    kilobytes = str(memory // 1024)
    yield Statement(f"SELECT set_config('maintenance_work_mem', $2, false) WHERE {enough}", (memory, kilobytes))
    if alone:
        yield Statement("SELECT set_config('max_parallel_maintenance_workers', '0', false)")
    of_width = f"embedding::{column.schema}.halfvec({wanted.width})"
    method = f"USING hnsw (({of_width}) {column.schema}.halfvec_cosine_ops)"
    where = f"model = {_literal(wanted.model)} AND {column.schema}.vector_dims(embedding) = {wanted.width}"
    yield from _create_index(column, wanted.name, f"ON {wanted.table} {method} WHERE {where}")


def drop_others(wanted: Sequence[ModelIndex]) -> Operation[None]:
    """The indexes of models that are not used any more. Not in a transaction."""
    column = yield from look()
    names = {each.name for each in wanted}
    prefixes = tuple(_index(table, NEAREST) for table in VECTOR_TABLES)
    others = [name for name in column.indexes if name.startswith(prefixes) and name not in names]
    if others and (yield from _locked()):
        for name in others:
            yield Statement(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


# ---- searching -------------------------------------------------------------------------------------------------------

# Of an index, this many rows are looked at for each that is wanted, at least.
LEAST_SCANNED = 20_000
MOST_SCANNED = 500_000
# What pgvector allows.
MOST_LOOKED_AT = 1_000
SETTINGS = """
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false), set_config('hnsw.ef_search', $1, false),
    set_config('hnsw.max_scan_tuples', $2, false), set_config('hnsw.scan_mem_multiplier', '16', false),
    set_config('enable_sort', 'off', false)
"""


class Sought(NamedTuple):
    store: str
    model: str
    # How many chunks the store has.
    chunks: int
    # As pgvector reads them.
    queries: Sequence[str]
    width: int
    most: int
    files: Sequence[str] | None


class SearchLimits(Struct, frozen=True):
    # Up to so many chunks all are compared: an index that has many others would be slower.
    exact: int = 10_000
    # Rows without the value that a search may compare itself.
    beside: int = 5_000


class Nearest(NamedTuple):
    # (place, distance) for each query. Not in their order.
    found: list[list[tuple[int, float]]]
    # Rows without the value.
    beside: list[VectorRow]


def nearest(column: Column, sought: Sought, limits: SearchLimits) -> Operation[Nearest | None]:
    """None: too many rows lack the value."""
    beside = yield from _beside(sought, limits.beside + 1)
    if len(beside) > limits.beside:
        return None
    rows = sum(
        column.indexes[name].rows
        for table in VECTOR_TABLES
        if column.has(name := index_of_model(table, sought.model, sought.width))
    )
    # What the scan of an index costs grows with the share of the rows that it passes over.
    most_exact = max(limits.exact, isqrt(4 * sought.most * rows))
    by_index = bool(rows) and (yield from _matching(sought, most_exact + 1)) > most_exact
    if by_index:
        scanned = min(MOST_SCANNED, max(LEAST_SCANNED, rows // 10))
        yield Statement(SETTINGS, (str(min(MOST_LOOKED_AT, max(40, sought.most))), str(scanned)))
    found: list[list[tuple[int, float]]] = []
    for query in sought.queries:
        values = [sought.store, sought.most, query, *([] if sought.files is None else [sought.files])]
        of_query: list[tuple[int, float]] = []
        for table in VECTOR_TABLES:
            text = _search(column, table, sought, by_index=by_index)
            of_query += [(row[0] * MOST_WINDOWS + row[1], row[2]) for row in (yield Statement(text, values))]
        found.append(of_query)
    return Nearest(found, beside)


def _beside(sought: Sought, most: int) -> Operation[list[VectorRow]]:
    beside: list[VectorRow] = []
    for table in VECTOR_TABLES:
        rows = yield Statement(
            f"""
            SELECT id, {_number(table)}, file, vector FROM {table}
            WHERE store = $1 AND model = $2 AND embedding IS NULL AND {NARROW} LIMIT $3
            """,
            (sought.store, sought.model, most),
        )
        beside += [VectorRow(row[0] * MOST_WINDOWS + row[1], row[2], row[3]) for row in rows]
    return beside


def _number(table: str) -> str:
    """The first of these tables has one vector a chunk."""
    return "0::bigint" if table == VECTOR_TABLES[0] else "number"


def _matching(sought: Sought, most: int) -> Operation[int]:
    """How many chunks may be found, up to a number."""
    if sought.files is None or sought.chunks < most:
        return sought.chunks
    text = "SELECT count(*) FROM (SELECT 1 FROM chunks WHERE store = $1 AND file = ANY ($2::text[]) LIMIT $3) AS matching"
    number: int = (yield Statement(text, (sought.store, sought.files, most)))[0][0]
    return number


def _search(column: Column, table: str, sought: Sought, *, by_index: bool) -> str:
    width = f"{column.schema}.halfvec({sought.width})"
    distance = f"(embedding::{width}) OPERATOR({column.schema}.<=>) $3::text::{width}"
    condition = f"{column.schema}.vector_dims(embedding) = {sought.width}"
    if sought.files is not None:
        of_files = "SELECT id FROM chunks WHERE store = $1 AND file = ANY ($4::text[])"
        condition += " AND file = ANY ($4::text[])" if by_index else f" AND id = ANY (ARRAY({of_files}))"
    # No index has the sum.
    order = distance if by_index else f"({distance}) + 0"
    return f"""
        SELECT id, {_number(table)}, {order} AS distance FROM {table}
        WHERE store = $1 AND model = {_literal(sought.model)} AND {condition}
        ORDER BY distance LIMIT $2
        """
