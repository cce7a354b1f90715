"""The tables of chunks: the pieces of files that a search finds, with their words and their vectors.

What is read for every search is apart from what is read for the few chunks that are found: the rows of the former are small.
"""

from antiphon.store.sql.statements_for_one import PostgresOnly, SqliteOnly

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
