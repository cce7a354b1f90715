"""What the routes of the inspector need; and the files of its page, which are read once. Nothing else is served."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from antiphon.gateway.limits.threads import ViewPlaces
from antiphon.server.inspector.recordings import RecordedRequest, Recordings
from antiphon.server.inspector.rows import Row
from antiphon.server.inspector.views import Opened

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"

# By the end of its name, the type of a file. Others are not served.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}

# A page without anything from elsewhere: what is injected into it does not run, and nothing leaves it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # The browser asks whether a file has changed: a new version of the gateway has a new page.
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    data: bytes
    type: str
    etag: str


@cache
def read_page(folder: Path = FOLDER) -> Mapping[str, PageFile]:
    """By their names: with slashes, for those in folders. Read once, for all gateways of a process."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {path.relative_to(folder).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> PageFile:
    data = path.read_bytes()
    return PageFile(data, TYPES[path.suffix], hashlib.blake2b(data, digest_size=8).hexdigest())


class Inspector(Struct, frozen=True):
    # Of Antiphon.
    version: str
    # None: it is switched off, and nothing is recorded.
    recordings: Recordings | None
    # Texts are shown; otherwise only their lengths.
    shows_bodies: bool
    files: Mapping[str, PageFile]

    def to_shown(self, row: Row) -> Row:
        return row.shown() if self.shows_bodies else row.shown().redacted()

    def open(self, request: RecordedRequest, opens_seals: Callable[[Row], bool]) -> tuple[Opened, Opened | None]:
        """The request, and the turn before it, if that is still there. `opens_seals`: whether the viewer may see what was in
        the seals of one."""
        number = request.row.previous
        previous = self.recordings.get(number) if self.recordings is not None and number is not None else None
        seals = opens_seals(request.row)
        return Opened(request, seals=seals), Opened(previous, seals=seals) if previous is not None else None

    def close(self) -> None:
        """Ends the streams of those who watch."""
        if self.recordings is not None:
            self.recordings.viewers.close()


class GatewayDescription(NamedTuple):
    version: str
    # The gateway itself, whatever has become of its worker processes. In seconds since 1970.
    started: float
    # The kind of its store: sqlite, postgres or memory.
    store: str


class Inspection(Struct, frozen=True):
    """The inspector, and what its routes need beside it."""

    inspector: Inspector
    # It shows nothing while no key is set: other machines can reach it.
    needs_key: bool
    # For requests that are opened: the whole answer is in memory until it is sent.
    opening: ViewPlaces
    # For the lists of what is stored. One at a time of each owner, and few in all: a search reads much, with the connections of
    # the store that all requests need.
    listing: ViewPlaces
    description: GatewayDescription
    # Of this process, in seconds since 1970.
    process_started: float
