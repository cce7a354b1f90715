"""Downloads one file over HTTP. An interrupted download resumes, in the next attempt and in the next run of the program."""

import asyncio
import re
from pathlib import Path
from typing import Final

import aiohttp

from antiphon.engines.embedded.progress import Progress
from antiphon.errors import counted

ATTEMPTS: Final = 5
# As long as the server has never answered: it may be out of reach.
FIRST_ATTEMPTS: Final = 2
# Seconds before the second attempt. Each further pause is twice as long.
FIRST_PAUSE = 0.5
CHUNK_BYTES = 256 * 1024
# A connection on which nothing arrives for this many seconds counts as broken.
READ_TIMEOUT = 30.0
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=READ_TIMEOUT)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class DownloadFailed(Exception):
    """The file cannot be downloaded. The message says why."""


class _Interrupted(Exception):
    """The bytes that arrived are kept, and the next attempt asks for the rest."""


async def download(url: str, part: Path, progress: Progress, *, first_pause: float = FIRST_PAUSE) -> None:
    """Completes `part`, which may already have the first bytes. Its name must identify the content, so that the parts fit."""
    headers = {"User-Agent": "antiphon", "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(timeout=TIMEOUT, headers=headers, trust_env=True) as session:
        answered = False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await _attempt(session, url, part, progress)
            except (aiohttp.ClientSSLError, aiohttp.InvalidURL) as final:
                raise DownloadFailed(str(final)) from final
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as absent:
                reason: Exception = absent
            except (_Interrupted, aiohttp.ClientError, TimeoutError, ConnectionError) as interrupted:
                reason, answered = interrupted, True
            if attempt == (ATTEMPTS if answered else FIRST_ATTEMPTS):
                break
            await asyncio.sleep(first_pause * 2 ** (attempt - 1))
    raise DownloadFailed(f"the connection broke {counted(attempt, 'time')}: {reason or type(reason).__name__}")


async def _attempt(session: aiohttp.ClientSession, url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    async with session.get(url, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        if answer.status >= 500 or answer.status in (408, 429):
            raise _Interrupted(f"the server answered {answer.status}")
        if answer.status == 416 or (answer.status == 206 and _range_start(answer) != have):
            # The part does not fit the file on the server: start again.
            part.unlink()
            raise _Interrupted("the server does not resume where the part ends")
        if answer.status not in (200, 206):
            raise DownloadFailed(f"the server answered {answer.status}")
        start = have if answer.status == 206 else 0
        total = _total(answer)
        progress(start, total)
        await _receive(answer, part, start, total, progress)


async def _receive(answer: aiohttp.ClientResponse, part: Path, start: int, total: int | None, progress: Progress) -> None:
    received = start
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
            file.write(chunk)
            # What has arrived must be in the file, however this process ends.
            file.flush()
            received += len(chunk)
            progress(received, total)
    if total is not None and received != total:
        raise _Interrupted(f"{received} of {counted(total, 'byte')} arrived")


def _range_start(answer: aiohttp.ClientResponse) -> int | None:
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _total(answer: aiohttp.ClientResponse) -> int | None:
    if found := _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "")):
        return int(found[2])
    return answer.content_length
