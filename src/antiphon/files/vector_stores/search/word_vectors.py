"""The embedding that needs no server: wordllama's vectors of word pieces, averaged over a text.

Only its two files are used. Its own code would look for files on the network, and changes how everything else logs.
"""

import asyncio
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from antiphon.files.vector_stores.search.embeddings import LONGEST_QUERY, normalized

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from antiphon.files.vector_stores.search.embeddings import Vectors

MODEL = "wordllama-256"
WEIGHTS = Path("weights/l2_supercat_256.safetensors")
TOKENIZER = Path("tokenizers/l2_supercat_tokenizer_config.json")
TENSOR = "embedding.weight"
# Texts that are embedded at once: a bound on memory.
BATCH = 16
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
        return await asyncio.to_thread(self._embed, [text[:LONGEST_QUERY] if query else text for text in texts])

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy

        with self._turn:
            loaded = self._loaded = self._loaded or _load()
            parts = [_embed(loaded, texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
        return numpy.concatenate(parts)


def _load() -> Loaded:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_folder() / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with safe_open(_folder() / WEIGHTS, framework="np") as file:
        return Loaded(file.get_tensor(TENSOR), tokenizer)


def _embed(loaded: Loaded, texts: Sequence[str]) -> "Vectors":
    import numpy

    encoded = loaded.tokenizer.encode_batch([_encodable(text) for text in texts], add_special_tokens=False)
    sums = numpy.zeros((len(texts), loaded.pieces.shape[1]), numpy.float32)
    for row, each in enumerate(encoded):
        # A piece that stands in a text nine times counts three times: such a text is still about other things, too.
        pieces, times = numpy.unique(numpy.array(each.ids, numpy.int64), return_counts=True)
        sums[row] = numpy.sqrt(times).astype(numpy.float32) @ loaded.pieces[pieces].astype(numpy.float32)
    return normalized(sums)


def _encodable(text: str) -> str:
    """Half a character that takes two cannot be encoded."""
    return text.encode("utf-8", "replace").decode()
