"""Which engine is it? Asked through the signs that each dialect lists."""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from antiphon.core.dialect import Dialect, Sign
from antiphon.dialects import KNOWN, PLAIN
from antiphon.wire import UNREADABLE

PROBE_TIMEOUT = aiohttp.ClientTimeout(total=5, sock_connect=2)
LARGEST_ANSWER = 4 * 1024 * 1024

# Where engines listen when nobody says otherwise.
WELL_KNOWN_PORTS: dict[int, str] = {
    8080: "llama.cpp",
    8000: "vLLM",
    23333: "LMDeploy",
    30000: "SGLang",
    11434: "Ollama",
    1234: "LM Studio",
}


@dataclass(frozen=True, slots=True)
class Found:
    dialect: Dialect
    models: tuple[dict[str, Any], ...]


class Prober:
    """Asks each path of one engine at most once."""

    def __init__(self, session: aiohttp.ClientSession, root: str, headers: dict[str, str]) -> None:
        self._session = session
        self._root = root
        self._headers = headers
        self._answers: dict[str, Any] = {}

    async def get(self, path: str) -> Any:
        if path not in self._answers:
            self._answers[path] = await self._ask(path)
        return self._answers[path]

    async def shows(self, sign: Sign) -> bool:
        value = await self.get(sign.path)
        for step in sign.key.split("."):
            if isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, dict) and step in value:
                value = value[step]
            else:
                return False
        return sign.value is None or value == sign.value

    async def _ask(self, path: str) -> Any:
        try:
            async with self._session.get(self._root + path, headers=self._headers, timeout=PROBE_TIMEOUT) as answer:
                if answer.status != 200:
                    return None
                return msgspec.json.decode(await answer.content.read(LARGEST_ANSWER))
        except (aiohttp.ClientError, OSError, *UNREADABLE):
            return None


async def detect(session: aiohttp.ClientSession, root: str, headers: dict[str, str]) -> Found | None:
    """None: nothing there answers like an engine."""
    prober = Prober(session, root, headers)
    listing = await prober.get("/v1/models")
    if not isinstance(listing, dict) or not isinstance(listing.get("data"), list):
        return None
    models = tuple(model for model in listing["data"] if isinstance(model, dict) and isinstance(model.get("id"), str))
    for dialect in KNOWN:
        for sign in dialect.signs:
            if await prober.shows(sign):
                return Found(dialect, models)
    return Found(PLAIN, models)


async def look_around(session: aiohttp.ClientSession, headers: dict[str, str], *, but: int) -> list[str]:
    """The engines on this machine's well-known ports, except the port that is our own."""
    roots = [f"http://127.0.0.1:{port}" for port in WELL_KNOWN_PORTS if port != but]
    found = await asyncio.gather(*(detect(session, root, headers) for root in roots))
    return [root for root, engine in zip(roots, found, strict=True) if engine is not None]
