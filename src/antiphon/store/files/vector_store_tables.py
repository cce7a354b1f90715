"""The tables of vector stores, their files, and the batches in which files were added."""

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
