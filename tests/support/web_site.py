"""A web site for the tests: good pages, and those that try to harm who opens them."""

import asyncio
import gzip
from collections.abc import Sequence

from aiohttp import web

from support.pdfs import make_pdf, make_scan
from support.servers import LocalServer

PARAGRAPHS = [
    f"Paragraph {number} says at some length that Rome is the capital of Italy, as everybody knows." for number in range(9)
]
ARTICLE = """<!doctype html><html><head><title>About  Rome</title></head><body><nav><a href="/x">Menu entry</a></nav>
<article><h1>Rome</h1>{paragraphs}<p>The Tiber flows through it.[3]</p></article>
<script>alert("never shown")</script><footer>Imprint</footer></body></html>"""


def article(*more: str) -> str:
    return ARTICLE.format(paragraphs="".join(f"<p>{each}</p>" for each in (*PARAGRAPHS, *more)))


class WebSite(LocalServer):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.left = asyncio.Event()
        # The status and the text of its robots.txt.
        self.robots = 404, ""

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return [web.get("/robots.txt", self._robots), web.get("/{name:.*}", self._page)]

    async def _robots(self, request: web.Request) -> web.Response:
        status, text = self.robots
        return web.Response(status=status, text=text)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.opened.append(name)
        match name:
            case "article":
                return web.Response(text=article(), content_type="text/html")
            case "long":
                return web.Response(
                    text=article(*(f"Line {at} of a long text about the city." for at in range(2000))), content_type="text/html"
                )
            case "latin1":
                body = article("Der Fluß heißt Tiber.").encode("latin-1")
                return web.Response(body=body, headers={"Content-Type": "text/html; charset=utf-8"})
            case "named-charset":
                body = article("Через Рим течёт Тибр.").encode("windows-1251")
                return web.Response(body=body, headers={"Content-Type": "text/html; charset=windows-1251"})
            case "unknown-charset":
                return web.Response(body=article().encode(), headers={"Content-Type": "text/html; charset=klingon"})
            case "untyped":
                return web.Response(body=article().encode(), headers={"Content-Type": "application/octet-stream"})
            case "no-text":
                return web.Response(text="<html><body><script>draw()</script></body></html>", content_type="text/html")
            case "data.json":
                return web.json_response({"capital": "Rome"})
            case "image.png":
                return web.Response(body=b"\x89PNG", content_type="image/png")
            case "whole.png":
                return web.Response(body=b"\x89PNG\r\n\x1a\nwhole", content_type="image/png")
            case "paper.pdf":
                return web.Response(body=make_pdf("Rome on paper"), content_type="application/pdf")
            case "scan.pdf":
                return web.Response(body=make_scan(b"\xff\xd8"), content_type="application/pdf")
            case "bomb":
                body = gzip.compress(b"<p>x</p>" * 1_000_000)
                return web.Response(body=body, headers={"Content-Type": "text/html", "Content-Encoding": "gzip"})
            case "cookie":
                answer = web.Response(text=request.headers.get("Cookie", "no cookie"))
                answer.set_cookie("who", "you")
                return answer
            case "huge" | "slow":
                return await self._without_end(request, pause=name == "slow")
            case "moved":
                raise web.HTTPFound("/article")
            case "round":
                raise web.HTTPFound("/round")
            case "to":
                raise web.HTTPFound(request.query["url"])
        raise web.HTTPNotFound

    async def _without_end(self, request: web.Request, *, pause: bool) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/html"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"<p>More and more of it.</p>" * 1000)
                if pause:
                    await asyncio.Event().wait()
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
