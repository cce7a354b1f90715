"""The inspector over HTTP, for its tests."""

import gc
from typing import Any

from antiphon.gateway.runs.run import ResponseRun
from antiphon.settings.settings import Settings
from support.engine import MockEngine
from support.gateway import DEFAULTS, GatewayUnderTest

WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
KEYS: dict[str, Any] = {"keys": {"ann": ("key-of-ann",), "bob": ("key-of-bob",)}, "admin_key": ("key-of-admin",)}


def bearing(name: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer key-of-{name}"}}


def settings_of(engine: MockEngine, **settings: Any) -> Settings:
    return Settings(upstream=(engine.url,), port=0, **DEFAULTS, **settings)


async def rows(gateway: GatewayUnderTest, query: str = "", **options: Any) -> list[dict[str, Any]]:
    """Once none of them runs: a response is written before the run ends."""
    while True:
        status, body = await gateway.get(f"/inspector/requests{query}", **options)
        assert status == 200, body
        found: list[dict[str, Any]] = body["data"]
        if all(row["status"] != "running" for row in found):
            return found


async def opened(gateway: GatewayUnderTest, number: int, **options: Any) -> dict[str, Any]:
    status, body = await gateway.get(f"/inspector/requests/{number}", **options)
    assert status == 200, body
    return body


def living_runs() -> list[ResponseRun]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, ResponseRun)]
