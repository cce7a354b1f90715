"""Embeddings, as the API has them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class CreateEmbeddings(Struct):
    # Texts; or tokens, which are another model's.
    input: Any
    model: str
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: Any = None


class Embedding(Struct):
    # Base64: little-endian floats of 32 bits.
    embedding: list[float] | str
    index: int
    object: Literal["embedding"] = "embedding"


class EmbeddingUsage(Struct):
    prompt_tokens: int
    total_tokens: int


class Embeddings(Struct):
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"
