"""Which engine is it? Asked through the signs that each dialect lists."""

import asyncio
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import aiohttp
import msgspec

from antiphon.core.dialect import Dialect, Lookup, Sign
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
class Model:
    """What an engine tells of one of its models; a window of None is not told."""

    id: str
    created: int
    owned_by: str
    window: int | None = None
    vision: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    dialect: Dialect
    models: tuple[Model, ...]
    version: str | None = None


class Prober:
    """Asks each path of one engine at most once."""

    def __init__(self, session: aiohttp.ClientSession, root: str, headers: dict[str, str]) -> None:
        self._session = session
        self._root = root
        self._headers = headers
        self._answers: dict[str, Any] = {}

    async def get(self, path: str, body: bytes | None = None) -> Any:
        question = f"{path} {body!r}"
        if question not in self._answers:
            self._answers[question] = await self._ask(path, body)
        return self._answers[question]

    async def shows(self, sign: Sign) -> bool:
        value = follow(await self.get(sign.path), sign.key)
        return value is not None and (sign.value is None or value == sign.value)

    async def look_up(self, lookups: tuple[Lookup, ...], model: str = "", at: int = 0) -> Any:
        """The first answer that there is."""
        for lookup in lookups:
            body = msgspec.json.encode({lookup.asks: model}) if lookup.asks else None
            value = follow(await self.get(lookup.path, body), lookup.key.format(at=at))
            if value is not None:
                return value
        return None

    async def _ask(self, path: str, body: bytes | None) -> Any:
        method = "GET" if body is None else "POST"
        asking = self._session.request(method, self._root + path, data=body, headers=self._headers, timeout=PROBE_TIMEOUT)
        try:
            async with asking as answer:
                if answer.status != 200:
                    return None
                return msgspec.json.decode(await answer.content.read(LARGEST_ANSWER))
        except (aiohttp.ClientError, OSError, *UNREADABLE):
            return None


def follow(value: Any, key: str) -> Any:
    """The member at the end of a key, None where there is none. A step that is a text asks whether a list has it."""
    for step in key.split("/"):
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, list):
            value = step in value
        elif isinstance(value, dict):
            value = next((member for name, member in value.items() if fnmatchcase(name, step)), None)
        else:
            return None
    return value


async def detect(session: aiohttp.ClientSession, root: str, headers: dict[str, str]) -> Found | None:
    """None: nothing there answers like an engine."""
    prober = Prober(session, root, headers)
    listing = await prober.get("/v1/models")
    if not isinstance(listing, dict) or not isinstance(listing.get("data"), list):
        return None
    dialect = await _dialect(prober)
    models = [
        await _model(prober, dialect, model, at)
        for at, model in enumerate(listing["data"])
        if isinstance(model, dict) and isinstance(model.get("id"), str)
    ]
    version = await prober.look_up(dialect.version)
    return Found(dialect, tuple(models), version if isinstance(version, str) else None)


async def _dialect(prober: Prober) -> Dialect:
    for dialect in KNOWN:
        for sign in dialect.signs:
            if await prober.shows(sign):
                return dialect
    return PLAIN


async def _model(prober: Prober, dialect: Dialect, model: dict[str, Any], at: int) -> Model:
    window = await prober.look_up(dialect.window, model["id"], at)
    vision = await prober.look_up(dialect.vision, model["id"], at)
    return Model(
        id=model["id"],
        created=model["created"] if isinstance(model.get("created"), int) else 0,
        owned_by=str(model.get("owned_by") or "engine"),
        window=window if isinstance(window, int) and window > 0 else None,
        vision=vision is True,
    )


async def look_around(session: aiohttp.ClientSession, headers: dict[str, str], *, but: int) -> list[str]:
    """The engines on this machine's well-known ports, except the port that is our own."""
    roots = [f"http://127.0.0.1:{port}" for port in WELL_KNOWN_PORTS if port != but]
    found = await asyncio.gather(*(detect(session, root, headers) for root in roots))
    return [root for root, engine in zip(roots, found, strict=True) if engine is not None]
