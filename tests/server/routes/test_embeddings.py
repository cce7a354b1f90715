"""/v1/embeddings: the engine's, and those of the model that comes with Antiphon."""

import base64
import struct
from typing import Any

import openai
import pytest
from support import batches
from support.batches import line, sdk
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.files.vector_stores.search.embeddings import MODEL
from antiphon.settings.tables import VectorStoreSettings

PATH = "/v1/embeddings"


def similarity(one: list[float], other: list[float]) -> float:
    return sum(left * right for left, right in zip(one, other, strict=True))


async def test_the_model_that_comes_with_antiphon_is_listed_and_answers(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        assert MODEL in [model.id async for model in client.models.list()]
        assert (await client.models.retrieve(MODEL)).owned_by == "antiphon"
        texts = ["a cat on the sofa", "a kitten on the couch", "the price of oil"]
        made = await client.embeddings.create(model=MODEL, input=texts)
        cat, kitten, oil = (each.embedding for each in made.data)
        assert (len(cat), made.model, [each.index for each in made.data]) == (256, MODEL, [0, 1, 2])
        assert similarity(cat, kitten) > 2 * similarity(cat, oil)
        assert made.usage.prompt_tokens == made.usage.total_tokens > 10
        short = await client.embeddings.create(model=MODEL, input=texts[0], dimensions=64, encoding_format="float")
        assert len(short.data[0].embedding) == 64
        assert similarity(short.data[0].embedding, short.data[0].embedding) == pytest.approx(1.0, abs=1e-4)
        assert short.data[0].embedding[0] * cat[1] == pytest.approx(short.data[0].embedding[1] * cat[0], abs=1e-4)
    _, answer = await gateway.post({"model": MODEL, "input": "Hi", "encoding_format": "base64"}, PATH)
    assert len(struct.unpack("<256f", base64.b64decode(answer["data"][0]["embedding"]))) == 256


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": [1, 2]}, "input"),
        ({"input": [[1, 2]]}, "input"),
        ({"input": []}, "input"),
        ({"input": [""]}, "input"),
        ({"input": ["a", None]}, "input"),
        ({"input": "x" * 100_001}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 257}, "dimensions"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
)
async def test_what_it_does_not_take_is_a_400_that_says_so(
    wrong: dict[str, Any], param: str, gateway: GatewayUnderTest
) -> None:
    status, answer = await gateway.post({"model": MODEL} | wrong, PATH)
    assert (status, answer["error"]["param"]) == (400, param)
    assert ("tokens" in answer["error"]["message"]) is (
        isinstance(wrong["input"], list) and wrong["input"][:1] in ([1], [[1, 2]])
    )


async def test_an_engine_that_has_the_model_comes_first(engine: MockEngine) -> None:
    engine.lists("mock", MODEL)
    engine.paths[PATH] = {"object": "list", "data": [], "model": "the engine's"}
    async with running_gateway(engine) as gateway:
        assert (await gateway.post({"model": MODEL, "input": "Hi"}, PATH))[1]["model"] == "the engine's"
        assert (await gateway.post({"model": "mock", "input": "Hi"}, PATH))[1]["model"] == "the engine's"


async def test_without_embeddings_there_is_no_such_model(engine: MockEngine) -> None:
    off = VectorStoreSettings(embedding_model="off")
    async with running_gateway(engine, vector_stores=off) as gateway, sdk(gateway) as client:
        assert [model.id async for model in client.models.list()] == ["mock"]
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("nothing-else")


async def test_lines_of_a_batch_get_its_embeddings(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        batch = await batches.run(client, [line("e", {"model": MODEL, "input": "Hi"}, PATH)], PATH)
        [out] = await batches.outputs(client, batch)
        assert len(out["response"]["body"]["data"][0]["embedding"]) == 256
        assert batch.usage is not None
        assert batch.usage.input_tokens > 0
