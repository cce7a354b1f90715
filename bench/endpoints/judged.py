"""What is common to the checks of all three APIs: the requests, and what was found of each check."""

import json
from collections.abc import Callable
from typing import Any

import aiohttp

Body = dict[str, Any]
Event = dict[str, Any]
TOKENS = 16
# Random weights, whose tokens are single bytes, take long to end a call.
LONG = 2048
LIMIT = aiohttp.ClientTimeout(total=600)
# What an SDK insists on.
KEY = "any"


class Wrong(Exception):
    """What an answer does that the API does not."""


class Checks:
    """Check → for each answer None, or what was wrong with it."""

    def __init__(self) -> None:
        self.found: dict[str, list[str | None]] = {}

    def judge(self, check: str, judge: Callable[..., None], *arguments: Any) -> None:
        try:
            judge(*arguments)
        except Wrong as wrong:
            self.note(check, str(wrong))
        except (KeyError, TypeError, IndexError, AttributeError) as missing:
            self.note(check, f"what was looked for is not there: {type(missing).__name__} {missing}")
        else:
            self.note(check, None)

    def note(self, check: str, wrong: str | None) -> None:
        self.found.setdefault(check, []).append(wrong)


async def whole(session: aiohttp.ClientSession, path: str, body: Body) -> tuple[int, Body]:
    """The status and the object. Of an answer that is no JSON object, an empty one."""
    async with session.post(path, json=body) as answer:
        try:
            value = json.loads(await answer.read())
        except ValueError:
            value = {}
        return answer.status, value if isinstance(value, dict) else {}


async def streamed(session: aiohttp.ClientSession, path: str, body: Body) -> list[Event]:
    """Without the end mark of a stream. Of an answer that is no stream: no events."""
    async with session.post(path, json={**body, "stream": True}) as answer:
        text = (await answer.read()).decode(errors="replace")
    lines = (line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line and line != "[DONE]"]
