"""One file over HTTP, resumed where it broke off: in the next attempt, and in the next run."""

import asyncio
import re
from pathlib import Path
from typing import Final

import aiohttp

from antiphon.embedded.progress import Progress

ATTEMPTS: Final = 5
# The pause before the second attempt, in seconds; it doubles from there.
FIRST_PAUSE = 0.5
PIECE = 256 * 1024
# A line on which nothing comes for so long is broken.
SILENCE = 30.0
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=SILENCE)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class DownloadRefused(Exception):
    """The server, or the line to it, will not give the file; the message says why."""


class _Broken(Exception):
    """What arrived is kept, and the rest is asked for again."""


async def download(url: str, part: Path, progress: Progress) -> None:
    """Completes `part`, of which some may be there already. What names the content must be in the name of `part`."""
    headers = {"User-Agent": "antiphon", "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(timeout=TIMEOUT, headers=headers, trust_env=True) as session:
        for attempt in range(ATTEMPTS):
            try:
                return await _attempt(session, url, part, progress)
            except (aiohttp.ClientSSLError, aiohttp.InvalidURL) as distrust:
                raise DownloadRefused(str(distrust)) from distrust
            except (_Broken, aiohttp.ClientError, TimeoutError, ConnectionError) as broken:
                reason = broken
            if attempt + 1 < ATTEMPTS:
                await asyncio.sleep(FIRST_PAUSE * 2**attempt)
    raise DownloadRefused(f"the line broke {ATTEMPTS} times: {reason or type(reason).__name__}")


async def _attempt(session: aiohttp.ClientSession, url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    async with session.get(url, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        if answer.status >= 500 or answer.status in (408, 429):
            raise _Broken(f"the server answered {answer.status}")
        if answer.status == 416 or (answer.status == 206 and _begins_at(answer) != have):
            # What is here does not fit what is there.
            part.unlink()
            raise _Broken("the server does not go on from here")
        if answer.status not in (200, 206):
            raise DownloadRefused(f"the server answered {answer.status}")
        begin = have if answer.status == 206 else 0
        total = _total(answer)
        progress(begin, total)
        await _receive(answer, part, begin, total, progress)


async def _receive(answer: aiohttp.ClientResponse, part: Path, begin: int, total: int | None, progress: Progress) -> None:
    received = begin
    with part.open("r+b" if begin else "wb") as file:
        file.seek(begin)
        async for piece in answer.content.iter_chunked(PIECE):
            file.write(piece)
            received += len(piece)
            progress(received, total)
    if total is not None and received != total:
        raise _Broken(f"{received} of {total} bytes arrived")


def _begins_at(answer: aiohttp.ClientResponse) -> int | None:
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _total(answer: aiohttp.ClientResponse) -> int | None:
    if found := _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "")):
        return int(found[2])
    return answer.content_length
