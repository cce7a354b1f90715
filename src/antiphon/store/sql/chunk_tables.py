"""The tables of chunks: the pieces of files that a search finds, with their words and their embeddings."""

from antiphon.store.sql.statements_for_one import PostgresOnly, SqliteOnly

CHUNKS = (
    """CREATE TABLE chunks (
        id bigserial PRIMARY KEY,
        store text NOT NULL,
        file text NOT NULL,
        number bigint NOT NULL,
        model text,
        embedding bytea,
        text text NOT NULL
    )""",
    "CREATE INDEX chunks_by_file ON chunks (store, file, number)",
    SqliteOnly("CREATE VIRTUAL TABLE chunk_words USING fts5 (store, text, content = '')"),
    PostgresOnly("CREATE TABLE chunk_words (id bigint PRIMARY KEY, store text NOT NULL, words tsvector NOT NULL)"),
    PostgresOnly("CREATE INDEX chunk_words_by_word ON chunk_words USING gin (words)"),
)
