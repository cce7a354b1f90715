"""A gateway that is killed during a background response, and the next one, which runs it again."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.background import held_back
from support.commands import served
from support.engine import MockEngine, text
from support.streams import TERMINAL, check_stream, parse

from bench.processes import free_port

pytestmark = pytest.mark.timeout(90)


async def read_events(content: aiohttp.StreamReader, seen: list[dict[str, Any]]) -> None:
    """Until the stream ends, or its connection does."""
    while frame := await content.readuntil(b"\n\n"):
        if frame.startswith(b"event:"):
            seen += parse(frame, done=False)


async def follow(client: aiohttp.ClientSession, url: str, seen: list[dict[str, Any]]) -> None:
    """A client that reconnects until it has the terminal event."""
    id = seen[0]["response"]["id"]
    while seen[-1]["type"] not in TERMINAL:
        query = {"stream": "true", "starting_after": str(seen[-1]["sequence_number"])}
        async with client.get(f"{url}/{id}", params=query) as answer:
            assert answer.status == 200
            seen += parse(await answer.read())


@pytest.mark.parametrize("pieces", [["Hello", " again"], [*"A longer answer than the one that was lost."]])
async def test_a_response_survives_its_gateway(engine: MockEngine, tmp_path: Path, pieces: list[str]) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script, text(*pieces))
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1/responses"
    arguments = ["serve", "--port", str(port), "--upstream", engine.url, "--store", f"sqlite:{tmp_path / 'responses.db'}"]
    seen: list[dict[str, Any]] = []
    async with aiohttp.ClientSession() as client:
        async with served(*arguments, ANTIPHON_BACKGROUND_LEASE="1") as (process, _):
            body = {"model": "mock", "input": "Hi", "background": True, "stream": True}
            async with client.post(url, json=body) as answer:
                reading = asyncio.create_task(read_events(answer.content, seen))
                while not any(event["type"] == "response.output_text.delta" for event in seen):
                    await asyncio.wait({reading}, timeout=0.02)
                process.kill()
                with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError)):
                    await reading
        lost = len(seen)
        async with served(*arguments, ANTIPHON_BACKGROUND_LEASE="1"):
            await follow(client, url, seen)
            async with client.get(f"{url}/{seen[0]['response']['id']}", params={"stream": "true"}) as answer:
                whole = parse(await answer.read())
    assert check_stream(whole)["output"][0]["content"][0]["text"] == "".join(pieces)
    numbers = [event["sequence_number"] for event in seen]
    assert numbers == list(range(len(seen)))
    assert len(seen) > lost
    assert [event["response"] for event in seen if event["type"] in TERMINAL] == [whole[-1]["response"]]
    assert len(engine.requests) == 2
