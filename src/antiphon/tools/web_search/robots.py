"""What sites ask of programs, in their robots.txt."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

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
