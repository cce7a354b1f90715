"""What other systems than Linux need: named encodings, and nothing that only Unix has when modules are imported.

No Windows was at hand: its obstacles are put in the way of a gateway on this system.
"""

import ast
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from support.commands import bare_environment
from support.engine import MockEngine

import antiphon

SOURCE = Path(antiphon.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# Modules that Windows does not have, and the loop that is not installed there.
UNIX_ONLY = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "readline", "uvloop")
# As on Windows: none of these modules, no SIGHUP, and a loop that takes no handlers of signals.
OBSTACLES = f"""
import asyncio, signal, sys
sys.modules.update(dict.fromkeys({UNIX_ONLY!r}))
del signal.SIGHUP

def refuse(*arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
asyncio.SelectorEventLoop.remove_signal_handler = refuse
"""


# ---- encodings -------------------------------------------------------------------------------------------------------


def nameless_encodings(tree: ast.AST) -> Iterator[int]:
    """The lines of calls that read or write text in whatever encoding the system has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_text(node) and not any(word.arg == "encoding" for word in node.keywords):
            yield node.lineno


def _is_text(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if name == "read_text" and call.args:
        # A path's first argument is the encoding. That of a distribution is a file, which is UTF-8.
        return False
    if name in ("read_text", "write_text"):
        return True
    if name == "run" and any(word.arg in ("text", "universal_newlines") for word in call.keywords):
        return True
    is_builtin = name == "open" and isinstance(call.func, ast.Name)
    if not is_builtin and name != "fdopen" and not (name == "open" and call.args and _mode_of(call.args[0]) is not None):
        return False
    modes = [*call.args[(1 if is_builtin or name == "fdopen" else 0) :], *(w.value for w in call.keywords if w.arg == "mode")]
    return not any("b" in (_mode_of(mode) or "") for mode in modes)


def _mode_of(node: ast.AST) -> str | None:
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return texts[0] if texts and set(texts[0]) <= set("rwaxbt+") else None


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("open('x')", True),
        ("open('x', 'rb')", False),
        ("open('x', encoding='utf-8')", False),
        ("path.open('w')", True),
        ("path.open('wb')", False),
        ("path.read_text()", True),
        ("path.read_text(errors='replace')", True),
        ("path.read_text('utf-8')", False),
        ("path.write_text(x, encoding='utf-8')", False),
        ("os.fdopen(1, 'w')", True),
        ("part.open('r+b' if x else 'wb')", False),
        ("subprocess.run(x, text=True)", True),
        ("store.open()", False),
    ],
)
def test_the_search_finds_what_it_should(code: str, found: bool) -> None:
    assert bool(list(nameless_encodings(ast.parse(code)))) == found


def test_every_file_is_read_and_written_in_a_named_encoding() -> None:
    breaches = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in FILES
        for line in nameless_encodings(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert breaches == []


# ---- the obstacles of Windows ----------------------------------------------------------------------------------------


def modules() -> list[str]:
    names = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in FILES]
    # A program of a process; and what imports the SDK of MCP, which looks at the platform, and so imports fcntl here.
    left_out = {"antiphon.__main__", "antiphon.tools.mcp.connection", "antiphon.tools.mcp.stdio_transport"}
    return sorted({name.removesuffix(".__init__") for name in names} - left_out)


def test_every_module_can_be_imported_without_what_only_unix_has() -> None:
    program = f"{OBSTACLES}\nimport importlib\nfor name in {modules()!r}: importlib.import_module(name)\nprint('imported')"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8")
    assert (found.stdout, found.returncode) == ("imported\n", 0), found.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_gateway_serves_and_stops_in_order_without_handlers_of_signals(
    engine: MockEngine, number: signal.Signals, tmp_path: Path
) -> None:
    # What killed gateways left elsewhere could be locked on Unix only.
    environment = {**bare_environment(), "TMPDIR": str(tmp_path)}
    arguments = ["antiphon", "serve", "--port", "0", "--upstream", engine.url]
    program = f"{OBSTACLES}\nsys.argv = {arguments!r}\nfrom antiphon.cli import main\nmain()"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
            assert "Antiphon is ready at" in line, (await process.communicate())[1].decode()
            url = f"{line.split()[-1]}/responses"
            async with aiohttp.ClientSession() as client, client.post(url, json={"input": "Hi"}) as answer:
                assert (await answer.json())["status"] == "completed"
            os.kill(process.pid, number)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    assert b'"event":"stopping"' in err
    assert b"Traceback" not in err


# ---- hints -----------------------------------------------------------------------------------------------------------


def test_no_message_pretends_that_antiphon_is_published() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    assert not [text for text in texts if "pip install antiphon" in text or "pip install 'antiphon" in text]
