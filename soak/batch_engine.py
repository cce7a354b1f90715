"""The engine of `soak.batches`: so many answers at once, in the order in which they were asked for, each after a while.

    python -m soak.batch_engine PORT SLOTS ANSWER_MS

It counts how often each request comes, and for requests of people how many answers must end before theirs begins: whatever
else the machine does, that says whether a batch gives way.
"""

import asyncio
import sys
from collections import Counter

from aiohttp import web

CHUNK = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","choices":[%s]}'
TEXT = '{"index":0,"delta":{"role":"assistant","content":"done"},"finish_reason":null}'
END = '{"index":0,"delta":{},"finish_reason":"stop"}'
WHOLE = "".join(f"data: {each}\n\n" for each in (CHUNK % TEXT, CHUNK % END, "[DONE]")).encode()
# How the requests of people begin, while a batch runs.
PERSON = "person"


class Slots:
    def __init__(self, count: int, answer_ms: int) -> None:
        self._count = count
        self._seconds = answer_ms / 1000
        self._free = asyncio.Semaphore(count)
        self._present = 0
        # By what they ask, how often.
        self.asked = Counter[str]()
        # By the number of answers that must end before theirs begins, how many people.
        self.waited = Counter[int]()

    async def answer(self, text: str) -> None:
        self.asked[text] += 1
        if text.startswith(PERSON):
            self.waited[max(0, self._present + 1 - self._count)] += 1
        self._present += 1
        try:
            async with self._free:
                await asyncio.sleep(self._seconds)
        finally:
            self._present -= 1


async def serve(port: int, slots: Slots) -> None:
    async def chat(request: web.Request) -> web.StreamResponse:
        await slots.answer((await request.json())["messages"][-1]["content"])
        return web.Response(body=WHOLE, headers={"Content-Type": "text/event-stream"})

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "bench", "object": "model", "owned_by": "bench"}]})

    async def seen(request: web.Request) -> web.Response:
        return web.json_response({"asked": slots.asked, "waited": slots.waited})

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.get("/seen", seen), web.post("/v1/chat/completions", chat)])
    # One that is killed takes its requests with it.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    given_port, given_slots, given_ms = map(int, sys.argv[1:])
    asyncio.run(serve(given_port, Slots(given_slots, given_ms)))
