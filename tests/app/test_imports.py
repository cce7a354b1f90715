"""What a process does not do while it imports its modules: the certificates of the machine are read with the first connection
that needs them."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from support.certificates import write_certificate
from support.commands import bare_environment

BY_AIOHTTP = """
async def get(url):
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status
with asyncio.Runner(loop_factory=FACTORY) as runner:
    print(runner.run(get(sys.argv[1])))
"""
BY_SOCKET = """
from urllib.request import urlopen
print(urlopen(sys.argv[1], context=context).status)
"""
# The certificates of the machine are those of the server only after the imports, so only who reads them later trusts it.
PROGRAM = """
import asyncio, os, ssl, sys, uvloop
from antiphon.app.imports import fast_imports
with fast_imports():
    import aiohttp
    context = ssl.create_default_context()
assert "set_default_verify_paths" not in vars(ssl.SSLContext)
os.environ["SSL_CERT_FILE"] = sys.argv[2]
"""


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


async def _printed(program: str, trusted: Path, shown: Path) -> tuple[str, str]:
    """By a program that asks a server that shows one certificate, where another one is trusted."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shown)
    async with await asyncio.start_server(_answer, "localhost", 0, ssl=context) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM + program, url, str(trusted)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=bare_environment(),
        )  # fmt: skip
        printed, errors = await process.communicate()
    return printed.decode().strip(), errors.decode()


BY_EACH_LOOP = [BY_AIOHTTP.replace("FACTORY", factory) for factory in ("None", "uvloop.new_event_loop")]


@pytest.mark.parametrize("program", [*BY_EACH_LOOP, BY_SOCKET], ids=["asyncio", "uvloop", "socket"])
async def test_certificates_are_read_with_the_first_connection_that_needs_them(program: str, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "server.pem", "localhost")
    assert await _printed(program, certificate, certificate) == ("200", "")


@pytest.mark.parametrize("program", [*BY_EACH_LOOP, BY_SOCKET], ids=["asyncio", "uvloop", "socket"])
async def test_who_is_not_trusted_is_rejected(program: str, tmp_path: Path) -> None:
    other, shown = (write_certificate(tmp_path / name, "localhost") for name in ("other.pem", "server.pem"))
    printed, errors = await _printed(program, other, shown)
    assert printed == ""
    assert "CERTIFICATE_VERIFY_FAILED" in errors


# It does not start: everybody could use it. By then, all is imported that it starts with.
GATEWAY = "from antiphon.cli import main; sys.argv[1:] = ['--host', '0.0.0.0', '--upstream', 'http://127.0.0.1:9']; main()"


@pytest.mark.parametrize("program", [GATEWAY, "import antiphon.app.processes.worker"], ids=["gateway", "worker"])
def test_a_process_starts_without_reading_certificates(program: str, tmp_path: Path) -> None:
    counted = "len([each for each in gc.get_objects() if isinstance(each, ssl.SSLContext) and each.cert_store_stats()['x509']])"
    source = (
        f"import gc, ssl, sys\ntry:\n    {program}\nfinally:\n    gc.unfreeze()\n    print('aiohttp' in sys.modules, {counted})"
    )
    certificate = write_certificate(tmp_path / "server.pem", "localhost")
    ran = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env=bare_environment(SSL_CERT_FILE=str(certificate))
    )
    assert ran.stdout.split() == ["True", "0"]
