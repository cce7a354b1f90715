"""The tables of vector stores, their files, and the batches in which files were added."""

VECTOR_STORES = (
    """CREATE TABLE vector_stores (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        last_active_at bigint NOT NULL,
        expires_after_days bigint,
        name text,
        description text,
        metadata bytea NOT NULL
    )""",
    "CREATE INDEX vector_stores_by_owner_and_age ON vector_stores (owner, created_at, id)",
    "CREATE INDEX vector_stores_by_age ON vector_stores (created_at, id)",
    "CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at)",
    # A file in progress is indexed by the gateway whose lease on it runs, or by the next one that looks.
    """CREATE TABLE vector_store_files (
        store text NOT NULL,
        file text NOT NULL,
        created_at bigint NOT NULL,
        batch text,
        status text NOT NULL,
        size bigint NOT NULL DEFAULT 0,
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
    "CREATE INDEX vector_store_files_by_file ON vector_store_files (file)",
    "CREATE INDEX vector_store_files_by_batch ON vector_store_files (batch)",
    "CREATE INDEX vector_store_files_to_index ON vector_store_files (held_until) WHERE status = 'in_progress'",
    """CREATE TABLE file_batches (
        id text PRIMARY KEY,
        store text NOT NULL,
        created_at bigint NOT NULL,
        cancelled boolean NOT NULL DEFAULT false
    )""",
    "CREATE INDEX file_batches_by_store ON file_batches (store)",
)
