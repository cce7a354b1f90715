"""Web pages: fetched within limits, from allowed addresses only, and read in a process of their own."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, CheckWork, DocumentWork, PageWork
from antiphon.tools.addresses import AddressPolicy, url_complaint
from antiphon.tools.fetcher import MOST_REDIRECTS, USER_AGENT, Fetched, Fetcher, FetchFailed, TooLarge
from antiphon.tools.web_search.backends import is_allowed

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


class PageReader:
    """`read()` any number of pages, then `close()`."""

    def __init__(
        self, run_check: RunCheck, policy: AddressPolicy, *, timeout: float, most_bytes: int, robots: bool = False
    ) -> None:
        """`timeout`: seconds for fetching a page, with its redirects. `robots`: what a site's robots.txt forbids is not
        opened."""
        self._run_check = run_check
        self._fetcher = Fetcher(policy, timeout=timeout, accept=ACCEPT)
        self._most_bytes = most_bytes
        self._robots = Robots(USER_AGENT, self._fetch_robots) if robots else None

    async def read(self, url: str, domains: Collection[str], owner: str) -> Page:
        """Raises PageFailed. `domains`: only pages of these may be opened, if there are any."""

        async def allow(url: str) -> None:
            if not is_allowed(url, domains):
                raise FetchFailed(f"{urlsplit(url).hostname} is not one of the domains that this search is limited to")
            if self._robots is not None and not await self._robots.allows(url):
                raise FetchFailed("the robots.txt of its site forbids it")

        try:
            fetched = await self._fetcher.fetch(url, self._most_bytes, allow)
        except FetchFailed as failed:
            raise PageFailed(str(failed)) from None
        return await self._to_page(fetched, owner)

    async def close(self) -> None:
        await self._fetcher.close()

    async def _fetch_robots(self, url: str) -> tuple[int, bytes]:
        for _ in range(MOST_REDIRECTS + 1):
            if url_complaint(self._fetcher.policy, url) is not None:
                break
            try:
                fetched = await self._fetcher.fetch_once(url, ROBOTS_BYTES)
            except TooLarge:
                break
            if not isinstance(fetched, str):
                return fetched.status, fetched.body
            url = fetched
        return 404, b""

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def _to_page(self, fetched: Fetched, owner: str) -> Page:
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
