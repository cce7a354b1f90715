"""One module reaches into aiohttp, and each thing that it uses there is checked for what it means."""

import ast
import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import DeflateBuffer
from aiohttp.http_writer import StreamWriter

import antiphon
from antiphon.transport import assumptions, internals
from antiphon.transport.assumptions import CHECKS, Sample, failing, finished
from antiphon.transport.choice import find_missing

SOURCE = Path(antiphon.__file__).parent
INTERNALS = SOURCE / "transport" / "internals.py"
ASSUMPTIONS = SOURCE / "transport" / "assumptions.py"
# A server's connections cannot be replaced otherwise. Without the internals it is aiohttp's own that are used.
CONNECTIONS = SOURCE / "transport" / "connections.py"
FAST = SOURCE / "transport" / "fast"
# What both kinds of connections share.
WATCHED = SOURCE / "transport" / "watched.py"
ALL = [path for path in sorted(SOURCE.rglob("*.py")) if path != INTERNALS]
OTHERS = [path for path in ALL if FAST not in path.parents and path not in (ASSUMPTIONS, CONNECTIONS, WATCHED)]

# Resolvers and the like are written against `aiohttp.abc`: it is documented.
PUBLIC = {"aiohttp", "aiohttp.abc", "aiohttp.web"}
# Private names of what aiohttp has made.
PRIVATE = re.compile(r"\b(request|response|writer|app|socket|answered|refused)\._\w+")
INTERNAL = re.compile(
    # Whether `answer.connection` is `closed` is part of the documented API.
    r"""\.connection\b.*\.protocol\b|\banswer\.connection\b(?!\.closed|\ is\ not\ None)|
    \brequest\.(_\w+|protocol)\b|\b_factory\b|\b_http_chunk_splits\b|
    \b_payload_writer\b|(?<!asyncio\.)\bStream(Writer|Reader)\b|\bAbstractStreamWriter\b|\bResponseHandler\b|\bsend_headers\b|
    \bfeed_data\b|\bfeed_eof\b|\bcontent\.set_exception\b|\bread_nowait\b|\bwait_eof\b|\b(pause|resume)_reading\b|\bget_write_buffer_size\b|\bwriter\.transport\b""",
    re.VERBOSE,
)


def aiohttp_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "aiohttp")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aiohttp":
            yield node.module or ""


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def test_only_public_modules_of_aiohttp_are_imported() -> None:
    assert [f"{path.name} imports {name}" for path in ALL for name in aiohttp_imports(path) if name not in PUBLIC] == []


def test_no_private_name_of_aiohttp_is_used() -> None:
    paths = [path for path in ALL if "transport" in path.parts]
    assert lines_with(PRIVATE, paths) == []
    assert lines_with(INTERNAL, OTHERS) == []


def test_the_rules_find_what_is_used() -> None:
    assert PRIVATE.search(INTERNALS.read_text())
    found = [path.name for path in FAST.glob("*.py") if INTERNAL.search(path.read_text())]
    assert sorted(found) == ["connection.py", "decompression.py", "direct.py", "server.py"]


# ---- what each of them means -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHECKS)
def test_the_installed_aiohttp_means_what_is_assumed(name: str) -> None:
    assert CHECKS[name]()


def no_match(request: web.Request) -> None:
    return None


class Forgetful(StreamWriter):
    """Does not keep a head until its body comes."""

    @property
    def _headers_buf(self) -> bytes | None:
        return None

    @_headers_buf.setter
    def _headers_buf(self, head: bytes | None) -> None: ...


class Talkative(StreamWriter):
    """Has its own way to know that the end was sent."""

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.transport.write(b"0\r\n\r\n")  # type: ignore[union-attr]


class Unlimited(DeflateBuffer):
    """Passes on everything at once."""

    def feed_data(self, chunk: bytes, size: int) -> bool:
        self.out.feed_data(self.decompressor.decompress_sync(chunk), size)
        return False


async def never_waits(connection: BaseProtocol) -> None: ...


# What may change in aiohttp although every name stays → the check that finds it.
CHANGES: dict[str, tuple[Any, str, Any]] = {
    "aiohttp.web_request.Request": (web.Request, "match_info", property(no_match)),
    "aiohttp.http_writer.StreamWriter._headers_buf": (internals, "StreamWriter", Forgetful),
    "aiohttp.http_writer.StreamWriter._eof": (internals, "StreamWriter", Talkative),
    "aiohttp.http_writer._serialize_headers": (internals, "serialize_headers", lambda line, headers: line.encode()),
    "aiohttp.helpers.rfc822_formatted_time": (internals, "rfc822_formatted_time", lambda: "today"),
    "aiohttp.web_response.Response": (web.Response, "enable_compression", lambda *_: None),
    "aiohttp.web_app.Application._client_max_size": (web.Application, "_client_max_size", property(lambda _: 7)),
    "aiohttp.base_protocol.BaseProtocol": (BaseProtocol, "_drain_helper", never_waits),
    "aiohttp.web_server.Server._task_handler": (web.Server, "connection_lost", lambda server, *_: server._connections.clear()),
    "aiohttp.tcp_helpers.tcp_keepalive": (internals, "tcp_keepalive", lambda transport: None),
    "aiohttp.http_parser.DeflateBuffer": (internals, "DeflateBuffer", Unlimited),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_change_of_meaning_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*CHANGES[name], raising=False)
    assert name in failing(CHECKS)


def test_a_name_that_is_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(BaseProtocol, "_drain_helper")
    assert failing(CHECKS) == ["aiohttp.base_protocol.BaseProtocol"]


def test_an_import_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(aiohttp.http_writer, "_serialize_headers")
    for name in ("assumptions", "internals"):
        monkeypatch.delitem(sys.modules, f"antiphon.transport.{name}")
    monkeypatch.delattr(antiphon.transport, "internals")
    assert find_missing() == ["aiohttp.http_writer"]


def test_the_checks_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_missing() == ()
    monkeypatch.setattr(assumptions, "CHECKS", {"never": Callable})
    assert find_missing() == ()


async def test_a_connection_waits_until_its_client_has_read_on() -> None:
    """For which the checks at the start have no event loop."""
    connection = Sample().connection
    connection._loop = asyncio.get_running_loop()
    connection.pause_writing()
    waiting = asyncio.create_task(connection.caught_up())
    await asyncio.sleep(0)
    assert not waiting.done()
    connection.resume_writing()
    await waiting


async def test_a_request_reads_the_rest_of_its_body_from_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(connection: object) -> bytes:
        return b"late"

    monkeypatch.setattr(internals.AnsweringConnection, "body", body)
    request = Sample(body=None).request
    assert (request.body_exists, request.can_read_body) == (True, True)
    assert finished(request.read()) == b"late"
    assert not request.can_read_body
