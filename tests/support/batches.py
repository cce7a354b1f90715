"""Batches in tests: their input files, and what comes of them."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from openai import AsyncOpenAI
from openai.types import Batch

from support.gateway import GatewayUnderTest

ENDED = {"completed", "failed", "expired", "cancelled"}


def sdk(gateway: GatewayUnderTest, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0)


def line(id: str, body: dict[str, Any] | None = None, url: str = "/v1/responses") -> dict[str, Any]:
    return {"custom_id": id, "method": "POST", "url": url, "body": {"model": "mock", "input": id} if body is None else body}


def jsonl(lines: Sequence[dict[str, Any] | bytes]) -> bytes:
    return b"".join((each if isinstance(each, bytes) else msgspec.json.encode(each)) + b"\n" for each in lines)


async def begin(client: AsyncOpenAI, lines: Sequence[dict[str, Any] | bytes], endpoint: Any = "/v1/responses") -> Batch:
    file = await client.files.create(file=("in.jsonl", jsonl(lines)), purpose="batch")
    return await client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")


async def ended(client: AsyncOpenAI, id: str) -> Batch:
    return await in_state(client, id, ENDED)


async def in_state(client: AsyncOpenAI, id: str, wanted: Collection[str]) -> Batch:
    """Asks again and again, as clients do."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 30
    batch = await client.batches.retrieve(id)
    while batch.status not in wanted:
        assert loop.time() < until, batch
        await asyncio.sleep(0.02)
        batch = await client.batches.retrieve(id)
    return batch


async def run(client: AsyncOpenAI, lines: Sequence[dict[str, Any] | bytes], endpoint: Any = "/v1/responses") -> Batch:
    return await ended(client, (await begin(client, lines, endpoint)).id)


async def results(client: AsyncOpenAI, file: str | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    content = (await client.files.content(file)).content
    assert content.endswith(b"\n")
    return [msgspec.json.decode(each) for each in content.splitlines()]


async def outputs(client: AsyncOpenAI, batch: Batch) -> list[dict[str, Any]]:
    return await results(client, batch.output_file_id)


async def errors(client: AsyncOpenAI, batch: Batch) -> list[dict[str, Any]]:
    return await results(client, batch.error_file_id)
