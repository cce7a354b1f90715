"""The settings of vector stores: the table `[vector_stores]` of antiphon.toml."""

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


class VectorStoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[vector_stores]`."""

    # The model that turns texts into vectors, so that a search also finds what is said in other words: the name of a model that
    # an engine serves at /v1/embeddings. "wordllama": the small English one of the extra `search`, which needs no engine.
    # "off": searches use words alone. If it is not set: wordllama, if it is installed; else words alone. Chunks keep the
    # vectors of the model that they were added with: those of another one are searched with it, if it is still there, and by
    # words.
    embedding_model: str | None = None
    # The address of another server that has this model, such as http://127.0.0.1:8081, with or without /v1. If it is not set:
    # the engines are asked.
    embedding_url: str | None = None
    # The key for that server. "$NAME" is the variable NAME of the gateway's environment; "${NAME}" may stand inside a text.
    embedding_key: str | None = None
    # What the model wants before a query, such as "search_query: ". The documentation of a model says whether it wants any.
    query_prefix: str = ""
    # What it wants before a text that is to be found, such as "search_document: ".
    text_prefix: str = ""
    # Seconds for one request for vectors, of up to 32 texts.
    embedding_timeout: Seconds = 60.0
    # The memory for vectors, in bytes. A store that needs more is read from the database for each search.
    memory: Annotated[int, Meta(ge=1024 * 1024)] = 512 * 1024 * 1024
    # How many vector stores one key may have. One more gets a 400.
    max_stores: Annotated[int, Meta(ge=1)] = 1_000
    # How many files one vector store may have. One more gets a 400.
    max_files: Annotated[int, Meta(ge=1)] = 10_000
    # How much text the vector stores of one key may have together, in bytes: the `usage_bytes` of all of them. A file that is
    # in several stores counts in each, and so does what its chunks have in common. Its index takes several times as much of
    # the disk. One file more gets a 400, and one that turns out to have more than there is room for fails. None: no limit but
    # `max_bytes`.
    key_bytes: Annotated[int, Meta(gt=0)] | None = None
    # How much text all vector stores may have together, in bytes.
    max_bytes: Annotated[int, Meta(gt=0)] = 10 * 1024 * 1024 * 1024
    # How many files this gateway indexes at once, the keys in turn. One key has all of these places but one. 0: this gateway
    # indexes none, and leaves it to others that use the same store.
    indexing_workers: Annotated[int, Meta(ge=0)] = 3
