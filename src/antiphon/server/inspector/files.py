"""The files of the page. They are read once, and nothing else is served."""

import hashlib
from pathlib import Path
from typing import NamedTuple

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


def read_page(folder: Path = FOLDER) -> dict[str, PageFile]:
    """By their names: with slashes, for those in folders."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {path.relative_to(folder).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> PageFile:
    data = path.read_bytes()
    return PageFile(data, TYPES[path.suffix], hashlib.blake2b(data, digest_size=8).hexdigest())
