"""Web pages: fetched within limits, from allowed addresses only, and read in a process of their own."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import aiohttp
from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, CheckWork, DocumentWork, PageWork
from antiphon.tools.addresses import AddressPolicy, AddressRefused, guarded_connector, url_complaint
from antiphon.tools.web_search.backends import TooLarge, is_allowed, read_at_most

# ---- robots.txt ------------------------------------------------------------------------------------------------------

# More of it is not read: it counts as if it were not there.
ROBOTS_BYTES = 512 * 1024
# Seconds for which it is remembered, and of how many sites.
LIFETIME = 3600.0
MOST_SITES = 256

FORBIDS_ALL = "User-agent: *\nDisallow: /"

# Fetches a URL: its status and its body.
Fetch = Callable[[str], Awaitable[tuple[int, bytes]]]


class Robots:
    def __init__(self, agent: str, fetch: Fetch) -> None:
        self._agent = agent
        self._fetch = fetch
        # By site: until when it counts, and its rules.
        self._known: dict[str, tuple[float, RobotFileParser]] = {}

    async def allows(self, url: str) -> bool:
        parts = urlsplit(url)
        rules = await self._rules(f"{parts.scheme}://{parts.netloc}")
        return rules.can_fetch(self._agent, url)

    async def _rules(self, site: str) -> RobotFileParser:
        now = asyncio.get_running_loop().time()
        until, rules = self._known.get(site, (now, None))
        if rules is not None and now < until:
            return rules
        status, body = await self._fetch(f"{site}/robots.txt")
        rules = RobotFileParser()
        # Where there is none, everything is allowed; where it cannot be had, nothing is.
        text = FORBIDS_ALL if status >= 500 else "" if status >= 400 else body.decode("utf-8", "replace")
        # In a thread: it may be long.
        await asyncio.to_thread(rules.parse, text.splitlines())
        self._known[site] = now + LIFETIME, rules
        while len(self._known) > MOST_SITES:
            del self._known[next(iter(self._known))]
        return rules


USER_AGENT = "Antiphon"
MOST_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})

HTML = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"
# Other types that are text.
TEXTS = frozenset({"application/json", "application/xml", "application/javascript", "application/yaml"})
# What a body is that comes without a type, by how it begins.
BEGINNINGS = ((b"%PDF", PDF), (b"<", "text/html"))
UNKNOWN = "application/octet-stream"
ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.1"

TOO_SLOW = "reading it takes too long"
NO_TEXT_IN_PDF = "the PDF has no text, only images"

# Runs slow work elsewhere, for this owner.
RunCheck = Callable[[CheckWork, str], Awaitable[CheckOutcome]]


class PageFailed(Exception):
    """The message says why the page was not opened. It is for the model."""


class Page(Struct, frozen=True):
    # Where it was found in the end, after redirects.
    url: str
    title: str
    text: str


class Fetched(Struct, frozen=True):
    url: str
    status: int
    kind: str
    charset: str | None
    body: bytes


class PageReader:
    """`read()` any number of pages, then `close()`."""

    def __init__(
        self, run_check: RunCheck, policy: AddressPolicy, *, timeout: float, most_bytes: int, robots: bool = False
    ) -> None:
        """`timeout`: seconds for fetching a page, with its redirects. `robots`: what a site's robots.txt forbids is not
        opened."""
        self._run_check = run_check
        self._policy = policy
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._robots = Robots(USER_AGENT, self._fetch_robots) if robots else None
        self._session: aiohttp.ClientSession | None = None

    async def read(self, url: str, domains: Collection[str], owner: str) -> Page:
        """Raises PageFailed. `domains`: only pages of these may be opened, if there are any."""
        try:
            async with asyncio.timeout(self._timeout):
                fetched = await self._follow(url, domains)
        except TimeoutError:
            raise PageFailed(f"it did not come within {self._timeout:g} s") from None
        except TooLarge:
            raise PageFailed(f"it has more than {self._most_bytes} bytes") from None
        except AddressRefused as refused:
            raise PageFailed(str(refused)) from None
        except (aiohttp.ClientError, OSError, ValueError) as failed:
            raise PageFailed(f"it cannot be fetched ({type(failed).__name__})") from None
        return await self._to_page(fetched, owner)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    # ---- fetching ----------------------------------------------------------------------------------------------------

    async def _follow(self, url: str, domains: Collection[str]) -> Fetched:
        """Every address on the way is checked, not only the first."""
        for _ in range(MOST_REDIRECTS + 1):
            if (complaint := url_complaint(self._policy, url)) is not None:
                raise PageFailed(complaint)
            if not is_allowed(url, domains):
                raise PageFailed(f"{urlsplit(url).hostname} is not one of the domains that this search is limited to")
            if self._robots is not None and not await self._robots.allows(url):
                raise PageFailed("the robots.txt of its site forbids it")
            fetched = await self._fetch(url, self._most_bytes)
            if not isinstance(fetched, str):
                return fetched
            url = fetched
        raise PageFailed(f"it redirects more than {MOST_REDIRECTS} times")

    async def _fetch(self, url: str, most_bytes: int) -> Fetched | str:
        """The page, or the URL that it redirects to."""
        async with self._opened().get(url, allow_redirects=False) as answer:
            if answer.status in REDIRECTS and (location := answer.headers.get("Location")):
                return urljoin(url, location)
            if answer.status >= 400:
                return Fetched(url, answer.status, "", None, b"")
            body = await read_at_most(answer, most_bytes)
            return Fetched(url, answer.status, answer.content_type.lower(), answer.charset, body)

    async def _fetch_robots(self, url: str) -> tuple[int, bytes]:
        for _ in range(MOST_REDIRECTS + 1):
            if url_complaint(self._policy, url) is not None:
                break
            try:
                fetched = await self._fetch(url, ROBOTS_BYTES)
            except TooLarge:
                break
            if not isinstance(fetched, str):
                return fetched.status, fetched.body
            url = fetched
        return 404, b""

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=guarded_connector(self._policy),
                headers={"User-Agent": USER_AGENT, "Accept": ACCEPT},
                # Pages of different users share nothing.
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def _to_page(self, fetched: Fetched, owner: str) -> Page:
        if fetched.status >= 400:
            raise PageFailed(f"its server answered with status {fetched.status}")
        kind = fetched.kind
        if kind == UNKNOWN:
            kind = next((known for begin, known in BEGINNINGS if fetched.body.lstrip()[:16].startswith(begin)), kind)
        if kind in HTML:
            return await self._checked(fetched, PageWork(fetched.body, fetched.charset), owner)
        if kind == PDF:
            return await self._checked(fetched, DocumentWork(fetched.body), owner)
        if kind.startswith("text/") or kind in TEXTS or kind.endswith(("+json", "+xml")):
            return await self._checked(fetched, PageWork(fetched.body, fetched.charset, is_html=False), owner)
        raise PageFailed(f"it is {kind}, which has no text")

    async def _checked(self, fetched: Fetched, work: CheckWork, owner: str) -> Page:
        outcome = await self._run_check(work, owner)
        if outcome.unfinished:
            raise PageFailed(TOO_SLOW)
        if outcome.complaint is not None or not outcome.text:
            raise PageFailed(outcome.complaint or NO_TEXT_IN_PDF)
        return Page(fetched.url, outcome.title, outcome.text)
