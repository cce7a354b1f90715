"""all-MiniLM-L6-v2, a small model of sentences, computed with numpy.

It needs neither an engine nor a package of its own beside those of the extra `search`. Its weights are used where they lie in
the file, so that all processes of a machine share them. On one thread numpy makes more vectors a second than llama.cpp with
the same model in eight bits, and both wait for each other on a machine that is busy if they have more threads.
"""

import asyncio
import json
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from antiphon.files.vector_stores.search.embeddings import LONGEST_QUERY, encodable, normalized
from antiphon.files.vector_stores.search.found import Piece

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from antiphon.files.vector_stores.search.embeddings import Vectors

    Floats = NDArray[numpy.floating[Any]]

MODEL = "all-minilm-l6-v2"
NEEDED = ("numpy", "threadpoolctl", "tokenizers")
# Tokens of one window, with the two that begin and end it: what the model was trained with. It takes up to 512.
WINDOW = 128
# Words that one window shares with the one before, in tokens: a sentence that is cut is whole in one of them.
SHARED = 16
# Tokens of what a chunk is about, above each of its windows.
MOST_CONTEXT = 32
HEADS = 12
BEGIN, END = 101, 102
EPSILON = 1e-12
# How GELU is written with a tangent: x / (1 + exp(-2 · sqrt(2/π) · (x + 0.044715 x³))).
GELU_CUBE, GELU_SCALE = 0.044715, -1.5957691216
# Where exp() of a float would be infinite.
LARGEST_POWER = 80.0
_SIZE = struct.Struct("<Q")


def can_run() -> bool:
    return all(find_spec(name) is not None for name in NEEDED)


class Loaded(NamedTuple):
    weights: "Mapping[str, Floats]"
    tokenizer: Any


class SentenceVectors:
    """Loaded when it is first used. Texts are embedded one after the other, on half of the cores: they share the machine with
    the engine. A query does not wait for them."""

    model = MODEL
    # Of a novel, it found 0.80 of what was asked in other words among the first five, and 0.78 where both weigh the same.
    words_weight = 0.5

    def __init__(self, file: Path) -> None:
        """`file`: the weights as safetensors, and directly behind them the tokenizer as JSON."""
        self._file = file
        self._loaded: Loaded | None = None
        self._loading = threading.Lock()
        self._places = threading.Semaphore(max(1, (os.cpu_count() or 1) // 2))

    async def embed(self, texts: Sequence[str], *, query: bool) -> "Vectors | None":
        import numpy

        if query:
            return await asyncio.to_thread(self._embed, [text[:LONGEST_QUERY] for text in texts])
        rows = [await asyncio.to_thread(self._embed_in_turn, text) for text in texts]
        return numpy.concatenate(rows)

    async def windows(self, pieces: Sequence[Piece]) -> list[list[str]]:
        return await asyncio.to_thread(lambda: [windows(self._load().tokenizer, piece) for piece in pieces])

    def _embed_in_turn(self, text: str) -> "Vectors":
        with self._places:
            return self._embed([text])

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy

        loaded = self._load()
        encoded = loaded.tokenizer.encode_batch([encodable(text) for text in texts], add_special_tokens=False)
        pieces = [numpy.array([BEGIN, *each.ids[: WINDOW - 2], END], numpy.int64) for each in encoded]
        return normalized(numpy.stack([sentence_vector(loaded.weights, each) for each in pieces]))

    def _load(self) -> Loaded:
        with self._loading:
            self._loaded = self._loaded or load(self._file)
            return self._loaded


def load(file: Path) -> Loaded:
    import numpy
    from threadpoolctl import threadpool_limits
    from tokenizers import Tokenizer

    # For good: with several threads, those that have nothing to do keep a core busy while they wait.
    threadpool_limits(limits=1, user_api="blas")
    data = numpy.memmap(file, numpy.uint8, "r")
    (length,) = _SIZE.unpack(data[: _SIZE.size].tobytes())
    start = _SIZE.size + length
    tensors = json.loads(data[_SIZE.size : start].tobytes())
    tensors.pop("__metadata__", None)
    weights = {
        name: data[start + tensor["data_offsets"][0] : start + tensor["data_offsets"][1]].view("<f4").reshape(tensor["shape"])
        for name, tensor in tensors.items()
        if tensor["dtype"] == "F32"
    }
    end = start + max(tensor["data_offsets"][1] for tensor in tensors.values())
    tokenizer = Tokenizer.from_str(data[end:].tobytes().decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Loaded(weights, tokenizer)


def windows(tokenizer: Any, piece: Piece) -> list[str]:
    """What is new in a chunk, in parts that fit into the model, each below what the chunk is about."""
    context = _fitting(tokenizer, encodable(piece.context))
    text = encodable(piece.text[piece.shared :] if piece.text[piece.shared :].strip() else piece.text)
    places = tokenizer.encode(text, add_special_tokens=False).offsets
    size = WINDOW - 2 - (len(tokenizer.encode(context, add_special_tokens=False).ids) if context else 0)
    # All but the last one are full, and that one is, too, if the text has so many tokens: it begins earlier.
    starts = range(0, max(1, len(places) - SHARED), size - SHARED)
    firsts = [min(start, max(0, len(places) - size)) for start in starts]
    parts = [text[places[at][0] : places[min(at + size, len(places)) - 1][1]] for at in firsts] if places else [text]
    return [f"{context}\n{part}" if context else part for part in parts]


def _fitting(tokenizer: Any, context: str) -> str:
    """Its end, which says most of where a text stands."""
    places = tokenizer.encode(context, add_special_tokens=False).offsets
    return context[places[-MOST_CONTEXT][0] :] if len(places) > MOST_CONTEXT else context


# ---- the model -------------------------------------------------------------------------------------------------------


def sentence_vector(weights: "Mapping[str, Floats]", tokens: "NDArray[numpy.int64]") -> "Floats":
    """The mean of what the last layer makes of the tokens."""
    rows = weights["embeddings.word_embeddings.weight"][tokens]
    rows += weights["embeddings.position_embeddings.weight"][: len(tokens)]
    rows += weights["embeddings.token_type_embeddings.weight"][0]
    rows = _normed(weights, "embeddings.LayerNorm", rows)
    layer = 0
    while (name := f"encoder.layer.{layer}") + ".output.dense.weight" in weights:
        rows = _layer(weights, name, rows)
        layer += 1
    mean: Floats = rows.mean(axis=0)
    return mean


def _layer(weights: "Mapping[str, Floats]", name: str, rows: "Floats") -> "Floats":
    attended = _linear(weights, f"{name}.attention.output.dense", _attention(weights, f"{name}.attention.self", rows))
    attended += rows
    rows = _normed(weights, f"{name}.attention.output.LayerNorm", attended)
    changed = _linear(weights, f"{name}.output.dense", _gelu(_linear(weights, f"{name}.intermediate.dense", rows)))
    changed += rows
    return _normed(weights, f"{name}.output.LayerNorm", changed)


def _attention(weights: "Mapping[str, Floats]", name: str, rows: "Floats") -> "Floats":
    import numpy

    number, width = rows.shape
    query, key, value = (
        _linear(weights, f"{name}.{part}", rows).reshape(number, HEADS, width // HEADS).transpose(1, 0, 2)
        for part in ("query", "key", "value")
    )
    shares = query @ key.transpose(0, 2, 1)
    shares *= numpy.float32((width // HEADS) ** -0.5)
    shares -= shares.max(axis=-1, keepdims=True)
    numpy.exp(shares, out=shares)
    shares /= shares.sum(axis=-1, keepdims=True)
    together: Floats = (shares @ value).transpose(1, 0, 2).reshape(number, width)
    return together


def _linear(weights: "Mapping[str, Floats]", name: str, rows: "Floats") -> "Floats":
    result: Floats = rows @ weights[f"{name}.weight"].T
    result += weights[f"{name}.bias"]
    return result


def _normed(weights: "Mapping[str, Floats]", name: str, rows: "Floats") -> "Floats":
    import numpy

    rows -= rows.mean(axis=-1, keepdims=True)
    rows /= numpy.sqrt((rows * rows).mean(axis=-1, keepdims=True) + EPSILON)
    rows *= weights[f"{name}.weight"]
    rows += weights[f"{name}.bias"]
    return rows


def _gelu(rows: "Floats") -> "Floats":
    import numpy

    power = rows * rows
    power *= numpy.float32(GELU_CUBE)
    power += 1
    power *= rows
    power *= numpy.float32(GELU_SCALE)
    numpy.minimum(power, numpy.float32(LARGEST_POWER), out=power)
    numpy.exp(power, out=power)
    power += 1
    rows /= power
    return rows
