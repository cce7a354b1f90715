"""What turns texts into vectors: a server's embedding model, or the small one that installs as a wheel.

The small one is wordllama: its vectors of word pieces, averaged over a text. Only its two files are used. Its own code would
look for files on the network, and changes how everything else logs.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from antiphon.errors import UNREADABLE
from antiphon.logs import log

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[numpy.float32]

# Texts in one request to a server, and requests at a time: others want answers of it, too.
BATCH = 32
REQUESTS = 2
# A model takes only so many tokens, and does not say how many. A text that is refused is tried again with its first half.
HALVINGS = 3
# Of a query, in characters.
LONGEST_QUERY = 8_000


class Embedder(Protocol):
    # Vectors of different models cannot be compared.
    model: str

    async def embed(self, texts: Sequence[str], *, query: bool) -> "Vectors | None":
        """None: it cannot be done now. `query`: they are searched for, not found."""


# The embedder for vectors of a model; None: nobody here can make such vectors.
EmbedderOf = Callable[[str], Embedder | None]


class NotEmbedded(Exception):
    """The message is for the log. `is_refused`: the same texts will not be taken later, either."""

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_refused = is_refused


# Asks for the vectors of texts, and returns the body of the answer. Raises NotEmbedded.
Ask = Callable[[list[str]], Awaitable[bytes]]


def embedding_request(model: str, texts: list[str]) -> bytes:
    return msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})


class EmbeddingServer:
    """A model behind /v1/embeddings."""

    def __init__(self, ask: Ask, model: str, *, query_prefix: str = "", text_prefix: str = "", timeout: float = 60.0) -> None:
        """`query_prefix`, `text_prefix`: what the model expects before texts of each kind. `timeout`: seconds for a request."""
        self.model = model
        self._ask = ask
        self._prefixes = {True: query_prefix, False: text_prefix}
        self._timeout = timeout
        self._places = asyncio.Semaphore(REQUESTS)
        self._is_away = False

    async def embed(self, texts: Sequence[str], *, query: bool) -> "Vectors | None":
        import numpy

        asked = [self._prefixes[query] + (text[:LONGEST_QUERY] if query else text) for text in texts]
        try:
            batches = [await self._embed_batch(asked[at : at + BATCH]) for at in range(0, len(asked), BATCH)]
            vectors = await asyncio.to_thread(numpy.concatenate, batches)
        except NotEmbedded as reason:
            self._report(str(reason))
            return None
        except ValueError:
            self._report("its vectors are not all of one length")
            return None
        self._is_away = False
        return vectors

    def _report(self, reason: str) -> None:
        """Once, until it answers again: it is asked for every few chunks."""
        if not self._is_away:
            log("not_embedded", level=logging.WARNING, model=self.model, reason=reason)
        self._is_away = True

    async def _embed_batch(self, texts: list[str]) -> "Vectors":
        try:
            return await self._embed_at_once(texts)
        except NotEmbedded as reason:
            if not reason.is_refused:
                raise
        # One of them is too long for the model.
        return _filled([await self._embed_one(text) for text in texts])

    async def _embed_one(self, text: str) -> "Vectors | None":
        """None: not even its beginning is taken."""
        for _ in range(HALVINGS + 1):
            try:
                return await self._embed_at_once([text])
            except NotEmbedded as reason:
                if not reason.is_refused:
                    raise
            text = text[: len(text) // 2]
        return None

    async def _embed_at_once(self, texts: list[str]) -> "Vectors":
        async with self._places:
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await self._ask(texts)
            except TimeoutError:
                raise NotEmbedded(f"it did not answer in {self._timeout:g} s") from None
        return await asyncio.to_thread(answer_to_vectors, answer, len(texts))


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


def answer_to_vectors(answer: bytes, number: int) -> "Vectors":
    """Raises NotEmbedded if it is not the answer for so many texts."""
    import numpy

    try:
        rows = msgspec.json.decode(answer, type=_Answer).data
    except UNREADABLE:
        raise NotEmbedded("its answer cannot be read") from None
    # In the order of the texts, also where the server answers in another.
    rows = sorted(rows, key=lambda row: row.index or 0)
    widths = {len(row.embedding) for row in rows}
    if len(rows) != number or len(widths) != 1 or 0 in widths:
        raise NotEmbedded("its answer has not one vector for each text")
    return normalized(numpy.array([row.embedding for row in rows], numpy.float32))


def normalized(vectors: "NDArray[Any]") -> "Vectors":
    """Of length 1. One without direction, or with numbers that are none, becomes zeros: it is similar to nothing."""
    import numpy

    clean = numpy.nan_to_num(vectors.astype(numpy.float32), nan=0.0, posinf=0.0, neginf=0.0)
    lengths = numpy.linalg.norm(clean, axis=1, keepdims=True)
    result: Vectors = numpy.divide(clean, lengths, out=numpy.zeros_like(clean), where=lengths > 0)
    return result


def _filled(rows: Sequence["Vectors | None"]) -> "Vectors":
    """Texts that are never taken become zeros, so that they do not keep others waiting. If none is taken, the model has no use
    for texts now: raises NotEmbedded."""
    import numpy

    made = next((row for row in rows if row is not None), None)
    if made is None:
        raise NotEmbedded("it takes no text")
    return numpy.concatenate([numpy.zeros_like(made) if row is None else row for row in rows])


MODEL = "wordllama-256"
WEIGHTS = Path("weights/l2_supercat_256.safetensors")
TOKENIZER = Path("tokenizers/l2_supercat_tokenizer_config.json")
TENSOR = "embedding.weight"
# Texts that are embedded at once: a bound on memory.
TEXTS_AT_ONCE = 16
# Packages that it needs; all come with the extra `search`.
NEEDED = ("numpy", "safetensors", "tokenizers", "wordllama")


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in NEEDED) and (_folder() / WEIGHTS).exists()


def _folder() -> Path:
    spec = find_spec("wordllama")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else Path()


class Loaded(NamedTuple):
    # One row for each piece; 16 MB.
    pieces: "NDArray[numpy.float16]"
    tokenizer: Any


class WordVectors:
    """Loaded when it is first used. One text after the other: it shares the machine with the engine."""

    model = MODEL

    def __init__(self) -> None:
        self._loaded: Loaded | None = None
        self._turn = threading.Lock()

    async def embed(self, texts: Sequence[str], *, query: bool) -> "Vectors | None":
        return (await self.embed_counted([text[:LONGEST_QUERY] if query else text for text in texts]))[0]

    async def embed_counted(self, texts: Sequence[str]) -> tuple["Vectors", int]:
        """And how many tokens they have."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> tuple["Vectors", int]:
        import numpy

        with self._turn:
            loaded = self._loaded = self._loaded or _load()
            parts = [_embed(loaded, texts[at : at + TEXTS_AT_ONCE]) for at in range(0, len(texts), TEXTS_AT_ONCE)]
        return numpy.concatenate([vectors for vectors, _ in parts]), sum(tokens for _, tokens in parts)


def _load() -> Loaded:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_folder() / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with safe_open(_folder() / WEIGHTS, framework="np") as file:
        return Loaded(file.get_tensor(TENSOR), tokenizer)


def _embed(loaded: Loaded, texts: Sequence[str]) -> tuple["Vectors", int]:
    import numpy

    encoded = loaded.tokenizer.encode_batch([_encodable(text) for text in texts], add_special_tokens=False)
    sums = numpy.zeros((len(texts), loaded.pieces.shape[1]), numpy.float32)
    for row, each in enumerate(encoded):
        # A piece that stands in a text nine times counts three times: such a text is still about other things, too.
        pieces, times = numpy.unique(numpy.array(each.ids, numpy.int64), return_counts=True)
        sums[row] = numpy.sqrt(times).astype(numpy.float32) @ loaded.pieces[pieces].astype(numpy.float32)
    return normalized(sums), sum(len(each.ids) for each in encoded)


def _encodable(text: str) -> str:
    """Half a character that takes two cannot be encoded."""
    return text.encode("utf-8", "replace").decode()
