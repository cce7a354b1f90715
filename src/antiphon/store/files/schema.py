"""The tables of the database of files: chunks with their words and vectors, uploaded files, vector stores, batches,
uploads in parts.

What is read of chunks for every search is apart from what is read of the few that are found: the rows of the former are small.
"""

from antiphon.store.operations import PostgresOnly, SqliteOnly
from antiphon.store.sql.schema import Migrations

CHUNKS = (
    """CREATE TABLE chunks (
        id bigserial PRIMARY KEY,
        store text NOT NULL,
        file text NOT NULL,
        number bigint NOT NULL
    )""",
    # Unique: two gateways that index the same file do not write a chunk twice.
    "CREATE UNIQUE INDEX chunks_by_file ON chunks (store, file, number)",
    "CREATE TABLE chunk_texts (id bigint PRIMARY KEY, text text NOT NULL)",
    # A vector is there as soon as the model has made it. In SQLite the rows of a store lie side by side.
    """CREATE TABLE chunk_vectors (
        store text NOT NULL,
        model text NOT NULL,
        id bigint NOT NULL,
        file text NOT NULL,
        vector bytea NOT NULL,
        PRIMARY KEY (store, model, id)
    ) /* SQLite: WITHOUT ROWID */""",
    "CREATE TABLE chunks_without_vector (id bigint PRIMARY KEY, store text NOT NULL)",
    # `additions` counts the writes that added chunks with newer ids, `changes` all others: so what is cached can be brought up
    # to date, by every gateway.
    """CREATE TABLE chunk_stores (
        store text PRIMARY KEY,
        chunks bigint NOT NULL DEFAULT 0,
        additions bigint NOT NULL DEFAULT 0,
        changes bigint NOT NULL DEFAULT 0
    )""",
    "CREATE TABLE chunk_models (store text NOT NULL, model text NOT NULL, PRIMARY KEY (store, model))",
    # The words are the terms of `core.chunk_words`: numbers that stand for a store, a word, and how much it counts. The texts
    # and where a word stands in them are not kept a second time.
    SqliteOnly("CREATE VIRTUAL TABLE chunk_words USING fts5 (words, content = '', detail = none, columnsize = 0)"),
    PostgresOnly("CREATE TABLE chunk_words (id bigint NOT NULL, words bigint[] NOT NULL)"),
    # It cannot be read from end to end, so no plan uses it in place of the index of words.
    PostgresOnly("CREATE INDEX chunk_words_by_id ON chunk_words USING hash (id)"),
    # What was added last waits in a list, because it is added together much faster. Searches read through it: it is short.
    PostgresOnly("CREATE INDEX chunk_words_by_word ON chunk_words USING gin (words) WITH (gin_pending_list_limit = 1024)"),
)


# ---- files -----------------------------------------------------------------------------------------------------------

FILES = (
    # A row is there as soon as all of its contents are. Ids sort in the order in which they were made.
    """CREATE TABLE files (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        size bigint NOT NULL,
        purpose text NOT NULL,
        filename text NOT NULL,
        content_type text
    )""",
    "CREATE INDEX files_by_owner ON files (owner, id)",
    "CREATE INDEX files_by_age ON files (created_at, id)",
    # With the sizes, for the sums that are compared with the limits.
    "CREATE INDEX files_by_owner_and_size ON files (owner, expires_at, size)",
    "CREATE INDEX files_by_expiry ON files (expires_at, size)",
    # One row, which is locked while a file is added: two gateways must not fill the same room.
    "CREATE TABLE file_room (id bigint PRIMARY KEY)",
    "INSERT INTO file_room (id) VALUES (1)",
    # The contents, where several gateways share a database. With SQLite they are files in a folder.
    """CREATE TABLE file_parts (
        file text NOT NULL,
        number bigint NOT NULL,
        written_at bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (file, number)
    )""",
)


# ---- vector stores, their files and batches --------------------------------------------------------------------------

VECTOR_STORES = (
    # `details`: what no statement looks at, as JSON.
    """CREATE TABLE vector_stores (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        last_active_at bigint NOT NULL,
        details bytea NOT NULL
    )""",
    "CREATE INDEX vector_stores_by_owner_and_age ON vector_stores (owner, created_at, id)",
    "CREATE INDEX vector_stores_by_age ON vector_stores (created_at, id)",
    "CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at)",
    # A file in progress is indexed by the gateway whose lease on it runs, or by the next one that looks. `document` names the
    # chunks that are made of it: if they are to be made anew, it changes, and the earlier ones are found no more.
    """CREATE TABLE vector_store_files (
        store text NOT NULL,
        file text NOT NULL,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        status text NOT NULL,
        size bigint NOT NULL DEFAULT 0,
        document text NOT NULL,
        error_code text,
        error_message text,
        holder text,
        held_until double precision NOT NULL DEFAULT 0,
        attempts bigint NOT NULL DEFAULT 0,
        attributes bytea NOT NULL,
        chunking bytea NOT NULL,
        PRIMARY KEY (store, file)
    )""",
    "CREATE INDEX vector_store_files_by_age ON vector_store_files (store, created_at, file)",
    # The counts of a store are read from this index alone.
    "CREATE INDEX vector_store_files_by_status ON vector_store_files (store, status, size)",
    "CREATE INDEX vector_store_files_by_file ON vector_store_files (file, store)",
    # Whose turn it is, and which of its files has waited longest.
    "CREATE INDEX vector_store_files_to_index ON vector_store_files (owner, held_until) WHERE status = 'in_progress'",
    # How much text an owner has, and everybody, is read from this index alone.
    "CREATE INDEX vector_store_files_by_owner ON vector_store_files (owner, size)",
    """CREATE TABLE file_batches (
        id text PRIMARY KEY,
        store text NOT NULL,
        created_at bigint NOT NULL,
        cancelled boolean NOT NULL DEFAULT false
    )""",
    "CREATE INDEX file_batches_by_store ON file_batches (store)",
    # A file may be added again by a later batch.
    """CREATE TABLE batch_files (
        batch text NOT NULL,
        file text NOT NULL,
        PRIMARY KEY (batch, file)
    )""",
    # What is left to remove: the chunks of a document, or, if that is '', all that a deleted store had.
    """CREATE TABLE discarded_documents (
        store text NOT NULL,
        document text NOT NULL,
        PRIMARY KEY (store, document)
    )""",
)


# ---- batches of requests ---------------------------------------------------------------------------------------------

BATCHES = (
    # `expires_at`: when no more of its lines are begun. `stop`: why it ends before its lines do: "cancelled", "expired" or
    # "failed". `served`: its lines that were claimed, for the turns that batches take. `holder` reads its input or writes its
    # output. `details`: what no statement looks at, as JSON.
    """CREATE TABLE batches (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        kept_until bigint NOT NULL,
        endpoint text NOT NULL,
        status text NOT NULL,
        stop text,
        input_file text NOT NULL,
        output_file text,
        error_file text,
        total bigint NOT NULL DEFAULT 0,
        completed bigint NOT NULL DEFAULT 0,
        failed bigint NOT NULL DEFAULT 0,
        input_tokens bigint NOT NULL DEFAULT 0,
        cached_tokens bigint NOT NULL DEFAULT 0,
        output_tokens bigint NOT NULL DEFAULT 0,
        reasoning_tokens bigint NOT NULL DEFAULT 0,
        served bigint NOT NULL DEFAULT 0,
        has_lines boolean NOT NULL DEFAULT false,
        holder text,
        held_until double precision NOT NULL DEFAULT 0,
        models bytea NOT NULL,
        details bytea NOT NULL
    )""",
    "CREATE INDEX batches_by_owner ON batches (owner, created_at, id)",
    "CREATE INDEX batches_by_age ON batches (created_at, id)",
    "CREATE INDEX batches_by_status ON batches (status, held_until)",
    "CREATE INDEX batches_by_end ON batches (kept_until)",
    # A line is a place in the input file. `place`: when it is run, in the order of prefixes.
    """CREATE TABLE batch_lines (
        batch text NOT NULL,
        number bigint NOT NULL,
        place bigint NOT NULL,
        start bigint NOT NULL,
        size bigint NOT NULL,
        custom_id text NOT NULL,
        model text NOT NULL,
        prefix text NOT NULL,
        state text NOT NULL DEFAULT 'waiting',
        holder text,
        available_at double precision NOT NULL DEFAULT 0,
        lost bigint NOT NULL DEFAULT 0,
        failures bigint NOT NULL DEFAULT 0,
        begun_calls text NOT NULL DEFAULT '',
        PRIMARY KEY (batch, number)
    )""",
    "CREATE INDEX batch_lines_waiting ON batch_lines (batch, model, place) WHERE state = 'waiting'",
    "CREATE INDEX batch_lines_running ON batch_lines (holder, batch) WHERE state = 'running'",
    # The line of the output or error file that came of a line, as JSON.
    """CREATE TABLE batch_results (
        batch text NOT NULL,
        number bigint NOT NULL,
        is_output boolean NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (batch, number)
    )""",
    # Gateways that run lines: until when each is taken for alive, and how many requests it has at each engine.
    "CREATE TABLE batch_gateways (name text PRIMARY KEY, held_until double precision NOT NULL)",
    """CREATE TABLE batch_loads (
        gateway text NOT NULL,
        engine text NOT NULL,
        busy bigint NOT NULL,
        PRIMARY KEY (gateway, engine)
    )""",
    # How many lines of each owner were claimed, for the turns that owners take.
    "CREATE TABLE batch_turns (owner text PRIMARY KEY, served bigint NOT NULL)",
    # One row, which is locked while lines are claimed: two gateways must not fill the same places.
    "CREATE TABLE batch_room (id bigint PRIMARY KEY)",
    "INSERT INTO batch_room (id) VALUES (1)",
)


# ---- uploads in parts ------------------------------------------------------------------------------------------------

UPLOADS = (
    # Their parts are contents without a file.
    """CREATE TABLE uploads (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        status text NOT NULL,
        bytes bigint NOT NULL,
        filename text NOT NULL,
        purpose text NOT NULL,
        content_type text,
        life bigint,
        file text
    )""",
    "CREATE INDEX uploads_by_owner ON uploads (owner, status)",
    "CREATE INDEX uploads_by_expiry ON uploads (expires_at)",
    """CREATE TABLE upload_parts (
        id text PRIMARY KEY,
        upload text NOT NULL,
        created_at bigint NOT NULL,
        size bigint NOT NULL
    )""",
    "CREATE INDEX upload_parts_by_upload ON upload_parts (upload)",
)


# ---- migrations ------------------------------------------------------------------------------------------------------
# As in `store/sql/schema.py`, which has those of responses.

# Never change a migration that was released: append a new one.
FILE_MIGRATIONS: Migrations = ((*FILES, *VECTOR_STORES, *CHUNKS), BATCHES, UPLOADS)
