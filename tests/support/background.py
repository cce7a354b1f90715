"""Background responses, as tests create and follow them."""

import asyncio
from typing import Any

from antiphon.store.records import UNFINISHED
from support.engine import DONE, USAGE, Script, Writer, chunk
from support.gateway import GatewayUnderTest
from support.streams import check_response, parse


def held_back(first: str, *rest: str) -> tuple[Script, asyncio.Event]:
    """An answer whose first piece comes at once, and the others when the event is set."""
    go_on = asyncio.Event()

    async def script(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": first}))
        await go_on.wait()
        await write(b"".join([*(chunk({"content": piece}) for piece in rest), chunk(finish="stop"), USAGE, DONE]))

    return script, go_on


class Background:
    def __init__(self, gateway: GatewayUnderTest, **options: Any) -> None:
        self.gateway = gateway
        self._options = options

    async def create(self, input: Any = "Hi", **fields: Any) -> dict[str, Any]:
        body = {"model": "mock", "input": input, "background": True, **fields}
        status, response = await self.gateway.post(body, **self._options)
        assert status == 200, response
        check_response(response)
        assert response["status"] == "queued", response
        return response

    async def get(self, id: str) -> dict[str, Any]:
        status, response = await self.gateway.get(f"/v1/responses/{id}", **self._options)
        assert status == 200, response
        check_response(response)
        return response

    async def seen(self, id: str, *statuses: str) -> dict[str, Any]:
        """The response once it has one of these statuses."""
        with self.gateway.gateway.store.follow(id) as wakeup:
            while (response := await self.get(id))["status"] not in statuses:
                await wakeup.wait()
        return response

    async def ended(self, id: str) -> dict[str, Any]:
        return await self.seen(id, "completed", "incomplete", "failed", "cancelled")

    async def made(self, input: Any = "Hi", **fields: Any) -> dict[str, Any]:
        return await self.ended((await self.create(input, **fields))["id"])

    async def cancel(self, id: str) -> dict[str, Any]:
        status, response = await self.gateway.post(b"", f"/v1/responses/{id}/cancel", **self._options)
        assert status == 200, response
        check_response(response)
        assert response["status"] not in UNFINISHED
        return response

    async def follow(self, id: str, after: int | None = None) -> list[dict[str, Any]]:
        query = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
        url = f"{self.gateway.url}/v1/responses/{id}"
        async with self.gateway.client.get(url, params=query, **self._options) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            assert answer.content_type == "text/event-stream"
            return parse(body)
