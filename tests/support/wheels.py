"""Small wheels that pip accepts, and an index that serves them."""

import asyncio
import hashlib
import zipfile
from pathlib import Path

from aiohttp import web

from support.servers import LocalServer

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, name: str, version: str, members: dict[str, bytes]) -> Path:
    module = name.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    info = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", METADATA.format(name=name, version=version))
        archive.writestr(f"{info}/WHEEL", WHEEL)
        archive.writestr(f"{info}/RECORD", "")
    return path


class FileServer(LocalServer):
    """Serves one file and an index with it. It can imitate bad connections and bad servers."""

    def __init__(self, data: bytes, name: str = "file.bin") -> None:
        super().__init__()
        self.data = data
        self.name = name
        self.ranges: list[str | None] = []
        # The first answers break off after this many bytes of the file.
        self.breaks: list[int] = []
        # The first answers have these status codes.
        self.errors: list[int] = []
        # Clients whose User-Agent does not contain this get a 403.
        self.only_for = ""
        self.supports_ranges = True
        # What the checksum in the index is of. None: the file.
        self.announced: bytes | None = None
        # Added to the first byte that Content-Range names.
        self.shift = 0
        # Answers that break off wait for this first, if it is there.
        self.breaks_when: asyncio.Event | None = None

    @property
    def file_url(self) -> str:
        return f"{self.url}/files/{self.name}"

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/files/{name}", self.file), web.get("/simple/{project}/", self.index)]

    async def index(self, request: web.Request) -> web.Response:
        digest = hashlib.sha256(self.data if self.announced is None else self.announced).hexdigest()
        # With separate metadata, pip can resolve the wheel without downloading it.
        link = f'<a href="/files/{self.name}#sha256={digest}" data-dist-info-metadata="true">{self.name}</a>'
        return web.Response(text=f"<!DOCTYPE html><html><body>{link}</body></html>", content_type="text/html")

    async def file(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["name"] == f"{self.name}.metadata":
            name, version = self.name.split("-")[:2]
            return web.Response(text=METADATA.format(name=name, version=version))
        return await self.content(request)

    async def content(self, request: web.Request) -> web.StreamResponse:
        if self.only_for not in request.headers.get("User-Agent", ""):
            return web.Response(status=403)
        requested = request.headers.get("Range")
        self.ranges.append(requested)
        if self.errors:
            return web.Response(status=self.errors.pop(0))
        begin = int(requested.removeprefix("bytes=").rstrip("-")) if requested and self.supports_ranges else None
        if begin is not None and begin >= len(self.data):
            return web.Response(status=416)
        return await self._send(request, begin)

    async def _send(self, request: web.Request, begin: int | None) -> web.StreamResponse:
        body = self.data[begin or 0 :]
        response = web.StreamResponse(status=200 if begin is None else 206)
        response.content_length = len(body)
        if begin is not None:
            end, total = len(self.data) - 1, len(self.data)
            response.headers["Content-Range"] = f"bytes {begin + self.shift}-{end}/{total}"
        await response.prepare(request)
        if self.breaks:
            await response.write(body[: self.breaks.pop(0)])
            if self.breaks_when is not None:
                await self.breaks_when.wait()
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(body)
        await response.write_eof()
        return response
