"""A small model of sentences, made here, gives the vectors that its definition says; and texts are divided for it."""

import json
import math
import struct
from pathlib import Path

import numpy
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from antiphon.files.vector_stores.search.found import Piece
from antiphon.files.vector_stores.search.sentence_vectors import BEGIN, END, HEADS, WINDOW, SentenceVectors

WIDTH, INNER, LAYERS, WORDS = 2 * HEADS, 48, 2, 400
PARTS = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
}
Weights = dict[str, "numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]]"]


def made_weights() -> Weights:
    chance = numpy.random.default_rng(1)

    def some(*shape: int) -> "numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]]":
        return chance.normal(0, 0.5, shape).astype(numpy.float32)

    made = {
        "embeddings.word_embeddings.weight": some(WORDS, WIDTH),
        "embeddings.position_embeddings.weight": some(512, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        for part, shape in PARTS.items():
            made |= {f"{name}.{part}.weight": some(*shape), f"{name}.{part}.bias": some(shape[0])}
    for norm in norms:
        made |= {f"{norm}.weight": some(WIDTH), f"{norm}.bias": some(WIDTH)}
    return made


def write_model(path: Path, weights: Weights) -> Path:
    tensors, data = {}, b""
    for name, weight in weights.items():
        tensors[name] = {
            "dtype": "F32",
            "shape": list(weight.shape),
            "data_offsets": [len(data), len(data) + weight.nbytes],
        }
        data += weight.tobytes()
    header = json.dumps({**tensors, "__metadata__": {"format": "pt"}}).encode()
    vocabulary = {f"w{number}": number for number in range(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data + tokenizer.to_str().encode())
    return path


@pytest.fixture
def weights() -> Weights:
    return made_weights()


@pytest.fixture
def model(tmp_path: Path, weights: Weights) -> SentenceVectors:
    return SentenceVectors(write_model(tmp_path / "model", weights))


# ---- as the model is defined, number by number, with the exact error function ----------------------------------------


def expected(weights: Weights, tokens: list[int]) -> list[float]:
    wide = {name: weight.astype(numpy.float64) for name, weight in weights.items()}

    def linear(name: str, rows: list[list[float]]) -> list[list[float]]:
        return [[float(out @ row) + bias for out, bias in zip(wide[f"{name}.weight"], wide[f"{name}.bias"])] for row in rows]  # noqa: B905

    def normed(name: str, rows: list[list[float]]) -> list[list[float]]:
        result = []
        for row in rows:
            mean = sum(row) / WIDTH
            spread = math.sqrt(sum((each - mean) ** 2 for each in row) / WIDTH + 1e-12)
            scale, shift = wide[f"{name}.weight"], wide[f"{name}.bias"]
            result.append([(row[at] - mean) / spread * scale[at] + shift[at] for at in range(WIDTH)])
        return result

    def added(one: list[list[float]], other: list[list[float]]) -> list[list[float]]:
        return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(one, other, strict=True)]

    def attended(name: str, rows: list[list[float]]) -> list[list[float]]:
        query, key, value = (linear(f"{name}.{part}", rows) for part in ("query", "key", "value"))
        result = [[0.0] * WIDTH for _ in rows]
        size = WIDTH // HEADS
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            for at, asked in enumerate(query):
                powers = [
                    math.exp(sum(a * b for a, b in zip(asked[part], each[part], strict=True)) / math.sqrt(size)) for each in key
                ]
                for power, each in zip(powers, value, strict=True):
                    for place in range(part.start, part.stop):
                        result[at][place] += power / sum(powers) * each[place]
        return result

    rows = normed(
        "embeddings.LayerNorm",
        [
            [
                float(
                    wide["embeddings.word_embeddings.weight"][token][column]
                    + wide["embeddings.position_embeddings.weight"][at][column]
                    + wide["embeddings.token_type_embeddings.weight"][0][column]
                )
                for column in range(WIDTH)
            ]
            for at, token in enumerate(tokens)
        ],
    )
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        attention = linear(f"{name}.attention.output.dense", attended(f"{name}.attention.self", rows))
        rows = normed(f"{name}.attention.output.LayerNorm", added(attention, rows))
        inner = [
            [each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in row]
            for row in linear(f"{name}.intermediate.dense", rows)
        ]
        rows = normed(f"{name}.output.LayerNorm", added(linear(f"{name}.output.dense", inner), rows))
    mean = [sum(row[at] for row in rows) / len(rows) for at in range(WIDTH)]
    length = math.sqrt(sum(each**2 for each in mean))
    return [each / length for each in mean]


async def test_vectors_are_those_of_the_model(model: SentenceVectors, weights: Weights) -> None:
    made = await model.embed(["w7 w8 w9 w300", "w5"], query=False)
    assert made is not None
    assert numpy.allclose(made[0], expected(weights, [BEGIN, 7, 8, 9, 300, END]), atol=5e-3)
    assert numpy.allclose(made[1], expected(weights, [BEGIN, 5, END]), atol=5e-3)


async def test_a_query_that_is_too_long_is_cut(model: SentenceVectors) -> None:
    long = " ".join(f"w{number % 300}" for number in range(600))
    whole, cut = (await model.embed([long], query=True), await model.embed([" ".join(long.split()[: WINDOW - 2])], query=True))
    assert whole is not None
    assert cut is not None
    assert numpy.allclose(whole, cut)


# ---- windows ---------------------------------------------------------------------------------------------------------


async def test_all_that_is_new_in_a_chunk_is_in_a_window_that_fits(model: SentenceVectors) -> None:
    words = [f"w{number}" for number in range(1, WORDS)]
    piece = Piece(" ".join(words), shared=len(" ".join(words[:150])))
    (windows,) = await model.windows([piece])
    assert all(len(window.split()) == WINDOW - 2 for window in windows)
    assert [word for word in words[150:] if not any(word in window.split() for window in windows)] == []
    assert "w2" not in " ".join(windows).split()


async def test_each_window_says_what_the_chunk_is_about(model: SentenceVectors) -> None:
    words = " ".join(f"w{number % WORDS}" for number in range(1, 301))
    (windows,) = await model.windows([Piece(words, "w301 w302")])
    assert len(windows) > 2
    assert all(window.startswith("w301 w302\n") for window in windows)
    assert all(len(window.split()) == WINDOW - 2 for window in windows)


@pytest.mark.parametrize("piece", [Piece("w1"), Piece(" "), Piece("w1 w2", shared=5), Piece("\ud800", "\ud800")])
async def test_a_text_without_much_in_it_has_one_window(model: SentenceVectors, piece: Piece) -> None:
    (windows,) = await model.windows([piece])
    assert len(windows) == 1
    assert await model.embed(windows, query=False) is not None
