"""What is at an address: fetched within limits, from allowed addresses only. Every address on the way is checked, not only the
first."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urljoin

import aiohttp
from msgspec import Struct

from antiphon.tools.addresses import AddressPolicy, AddressRefused, guarded_connector, url_complaint

USER_AGENT = "Antiphon"
MOST_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})

# Raises FetchFailed for an address that may not be opened although the policy allows it.
Allow = Callable[[str], Awaitable[None]]


class FetchFailed(Exception):
    """The message says why nothing was fetched. It is fit for a client, and for a model."""


class TooLarge(Exception):
    pass


class Fetched(Struct, frozen=True):
    # Where it was found in the end, after redirects.
    url: str
    status: int
    kind: str
    charset: str | None
    body: bytes


async def read_at_most(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Counted after decompression: a small body may be large."""
    body = bytearray()
    async for piece in answer.content.iter_chunked(65536):
        body += piece
        if len(body) > most:
            raise TooLarge
    return bytes(body)


async def _any(url: str) -> None: ...


class Fetcher:
    """`fetch()` any number of times, then `close()`."""

    def __init__(self, policy: AddressPolicy, *, timeout: float, accept: str = "*/*") -> None:
        """`timeout`: seconds for one, with its redirects."""
        self.policy = policy
        self._timeout = timeout
        self._accept = accept
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, url: str, most_bytes: int, allow: Allow = _any) -> Fetched:
        """Raises FetchFailed, also for a status that is an error."""
        try:
            async with asyncio.timeout(self._timeout):
                fetched = await self._follow(url, most_bytes, allow)
        except TimeoutError:
            raise FetchFailed(f"it did not come within {self._timeout:g} s") from None
        except TooLarge:
            raise FetchFailed(f"it has more than {most_bytes} bytes") from None
        except AddressRefused as refused:
            raise FetchFailed(str(refused)) from None
        except (aiohttp.ClientError, OSError, ValueError) as failed:
            raise FetchFailed(f"it cannot be fetched ({type(failed).__name__})") from None
        if fetched.status >= 400:
            raise FetchFailed(f"its server answered with status {fetched.status}")
        return fetched

    async def _follow(self, url: str, most_bytes: int, allow: Allow) -> Fetched:
        for _ in range(MOST_REDIRECTS + 1):
            if (complaint := url_complaint(self.policy, url)) is not None:
                raise FetchFailed(complaint)
            await allow(url)
            fetched = await self.fetch_once(url, most_bytes)
            if not isinstance(fetched, str):
                return fetched
            url = fetched
        raise FetchFailed(f"it redirects more than {MOST_REDIRECTS} times")

    async def fetch_once(self, url: str, most_bytes: int) -> Fetched | str:
        """Or the URL that it redirects to."""
        async with self._opened().get(url, allow_redirects=False) as answer:
            if answer.status in REDIRECTS and (location := answer.headers.get("Location")):
                return urljoin(url, location)
            if answer.status >= 400:
                return Fetched(url, answer.status, "", None, b"")
            body = await read_at_most(answer, most_bytes)
            return Fetched(url, answer.status, answer.content_type.lower(), answer.charset, body)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=guarded_connector(self.policy),
                headers={"User-Agent": USER_AGENT, "Accept": self._accept},
                # What different users fetch shares nothing.
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
