"""The engine that tests use: real llama.cpp with a model of random weights."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.gateway import running_gateway
from support.llamacpp import running_llamacpp
from support.tiny_model import THINKING, write_tiny_model

from antiphon.core.stream.chat_stream import ChatStream


async def ask(url: str, **fields: Any) -> Any:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_it_is_small_and_writes_readable_noise(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf")
    assert model.stat().st_size < 200_000
    with running_llamacpp(model, alias="noise", context=1024, slots=2) as url:
        answer = await ask(url, max_tokens=20, seed=1)
        async with running_gateway(url) as gateway:
            response = await gateway.create(model="noise", max_output_tokens=20)
            (known,) = gateway.gateway.pool.engines[0].models
    assert (known.id, known.window) == ("noise", 1024)
    assert answer["choices"][0]["message"]["content"].isprintable()
    assert response["model"] == "noise"
    assert 1 <= response["usage"]["output_tokens"] <= 20


async def test_it_reports_how_far_it_has_read_a_prompt(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf")
    body = {"messages": [{"role": "user", "content": "word " * 600}], "max_tokens": 3, "stream": True, "return_progress": True}
    stream, found = ChatStream(), []
    with running_llamacpp(model, context=8192) as url:
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as answer:
            async for piece in answer.content.iter_any():
                stream.receive(piece)
                found.append(stream.progress)
    first, last = found[0], found[-1]
    assert first is not None
    assert last is not None
    assert (last.processed, last.share) == (last.total, 1.0)
    assert first.processed <= last.processed


@pytest.mark.parametrize(("ends", "reason"), [(True, "stop"), (False, "length")])
async def test_it_stops_by_itself_or_never(tmp_path: Path, ends: bool, reason: str) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", ends=ends)
    with running_llamacpp(model, context=4096) as url:
        answer = await ask(url, max_tokens=3000, seed=2)
    assert answer["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize(("reasoning_format", "member"), [("deepseek", "reasoning_content"), ("none", "content")])
async def test_the_template_and_the_reasoning_format_can_be_chosen(tmp_path: Path, reasoning_format: str, member: str) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", template=THINKING, ends=False)
    with running_llamacpp(model, reasoning_format=reasoning_format) as url:
        message = (await ask(url, max_tokens=10))["choices"][0]["message"]
    assert message[member]


async def test_a_model_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with pytest.raises(RuntimeError, match="did not start"), running_llamacpp(broken):
        pass
