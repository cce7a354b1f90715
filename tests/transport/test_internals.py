"""Nothing but the fast transport, and the connections of clients, reaches into aiohttp."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import antiphon

SOURCE = Path(antiphon.__file__).parent
FAST = SOURCE / "transport" / "fast"
# Names them, to see whether they are there.
NAMES = SOURCE / "transport" / "internals.py"
# A server's connections cannot be replaced otherwise. Without the internals it is aiohttp's own that are used.
CONNECTIONS = SOURCE / "transport" / "connections.py"
# What both kinds of connections share.
WATCHED = SOURCE / "transport" / "watched.py"
EXCEPTIONS = (NAMES, CONNECTIONS, WATCHED)
OTHERS = [path for path in sorted(SOURCE.rglob("*.py")) if FAST not in path.parents and path not in EXCEPTIONS]

# Resolvers and the like are written against `aiohttp.abc`: it is documented.
PUBLIC = {"aiohttp", "aiohttp.abc", "aiohttp.web"}
INTERNAL = re.compile(
    # Whether `answer.connection` is `closed` is part of the documented API.
    r"""\.connection\b.*\.protocol\b|\banswer\.connection\b(?!\.closed|\ is\ not\ None)|
    \brequest\.(_\w+|protocol)\b|\b_factory\b|\b_http_chunk_splits\b|
    \b_payload_writer\b|(?<!asyncio\.)\bStream(Writer|Reader)\b|\bAbstractStreamWriter\b|\bResponseHandler\b|\bsend_headers\b|
    \bfeed_data\b|\bfeed_eof\b|\bread_nowait\b|\bwait_eof\b|\b(pause|resume)_reading\b|\bget_write_buffer_size\b|\bwriter\.transport\b""",
    re.VERBOSE,
)


def aiohttp_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "aiohttp")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aiohttp":
            yield node.module or ""


def test_only_public_modules_of_aiohttp_are_imported() -> None:
    paths = [*OTHERS, CONNECTIONS]
    assert [f"{path.name} imports {name}" for path in paths for name in aiohttp_imports(path) if name not in PUBLIC] == []


def test_no_internals_of_aiohttp_are_used() -> None:
    breaches = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in OTHERS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if INTERNAL.search(line)
    ]
    assert breaches == []


def test_the_rule_finds_what_the_fast_transport_does() -> None:
    found = [path.name for path in FAST.glob("*.py") if INTERNAL.search(path.read_text())]
    assert sorted(found) == ["connection.py", "decompression.py", "direct.py", "server.py"]
