"""A bare proxy on aiohttp and uvloop, the floor of that stack: PORT ENGINE. It reads no byte of what it passes on."""

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web

SESSION = web.AppKey("session", aiohttp.ClientSession)


async def forward(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
    body = await request.read()
    async with request.app[SESSION].request(request.method, request.path_qs, data=body, headers=headers) as answer:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]})
        response.content_length = answer.content_length
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


async def engine(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(sys.argv[2], connector=aiohttp.TCPConnector(limit=0)) as app[SESSION]:
        yield


if __name__ == "__main__":
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", forward)
    app.cleanup_ctx.append(engine)
    loop = uvloop.new_event_loop()
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), backlog=4096, print=None, loop=loop, access_log=None)
