"""Makes the pictures of the documents: the second turn of a coding session, as a person reads it, and as it was sent; and the
playground. `--all FOLDER` makes one of each view.

Run by hand (`make screenshot`), where the page has changed.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright
from support.browser import WIDE, Theme, new_page, show_panes
from support.chromium import chromium
from support.conversations import number_of
from support.engine import DONE, OWN_FIELDS, MockEngine, Script, Writer, call
from support.engine import chunk as any_chunk
from support.gateway import GatewayUnderTest, running_gateway, started

DOCS = Path(__file__).parents[2] / "docs"
SIZE = (1240, 740)
SMALL = (375, 740)
VIEWS = ("requests", "playground", "engines", "stored")

MODEL = "qwen2.5-coder-7b"
chunk = partial(any_chunk, model=MODEL)
SHELL: dict[str, Any] = {
    "type": "function",
    "name": "shell",
    "description": "Runs a command in the repository and returns its output",
    "parameters": {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}},
}
TASK = "Parse the offset of RFC 3339 dates, in minutes. Add a test."
LISTING = "\n".join(["total 24", "-rw-r--r-- 1 dev dev  812 dates.py", "-rw-r--r-- 1 dev dev 1204 test_dates.py"])
THOUGHT = "The user wants a parser of offsets. I look at the repository before I change anything."
ANSWER = "`parse_offset` reads the sign, the hours and the minutes; `Z` is 0. The test covers `+05:30`, `-08:00` and `Z`."

QUESTION = "Which offsets can a date of RFC 3339 have?"
SAID = "Z for UTC, or a sign with hours and minutes, such as +05:30."

# Seconds: an engine that answers at once would show numbers that no engine has.
READING, WRITING = 0.31, 0.016


def words(text: str, member: str = "content") -> list[bytes]:
    return [chunk({member: f"{' ' if at else ''}{word}"}) for at, word in enumerate(text.split(" "))]


def usage(prompt: int, cached: int, completion: int) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return chunk(usage={**counts, "prompt_tokens_details": {"cached_tokens": cached}})


def paced(*chunks: bytes, finish: str, counted: bytes) -> Script:
    async def write_all(write: Writer) -> None:
        await asyncio.sleep(READING)
        for each in (chunk({"role": "assistant", "content": None}), *chunks, chunk(finish=finish)):
            await write(each)
            await asyncio.sleep(WRITING)
        await write(counted + DONE)

    return write_all


async def session(gateway: GatewayUnderTest, engine: MockEngine) -> int:
    """A call and its result; the instructions have another date in the second turn. The number of that turn."""
    listing = call("shell", '{"command": ["ls", "-l"]}')
    engine.will(
        paced(*words("Hello! What shall we build?"), finish="stop", counted=usage(31, 0, 8)),
        paced(*words(THOUGHT, "reasoning_content"), listing, finish="tool_calls", counted=usage(1_214, 0, 43)),
        paced(*words(ANSWER), finish="stop", counted=usage(1_371, 96, 52)),
    )
    fields = {"model": MODEL, "tools": [SHELL], "reasoning": {"effort": "medium"}}
    await gateway.stream("Hello", model=MODEL)
    first = await gateway.stream(TASK, instructions="You are a coding agent. Today is 2026-11-15, 23:58.", **fields)
    await gateway.post({"model": MODEL, "input": "Hi", "tool_choice": "sometimes"})
    response = first[-1]["response"]
    result = {"type": "function_call_output", "call_id": response["output"][-1]["call_id"], "output": LISTING}
    instructions = "You are a coding agent. Today is 2026-11-16, 00:01."
    second = await gateway.stream([result], previous_response_id=response["id"], instructions=instructions, **fields)
    return await number_of(gateway, second)


async def choose_an_event(page: Page) -> None:
    """One delta in the middle, with its chunk."""
    await page.locator(".event", has_text="output_text.delta").first.click()
    await page.locator(".event.inner").nth(2).click()


async def take_pictures(browser: Browser, url: str, number: int) -> None:
    async with new_page(browser, url, size=SIZE) as page:
        await page.goto(f"/#/requests/{number}")
        await page.get_by_text("parse_offset").first.wait_for()
        await page.screenshot(path=DOCS / "conversation.png")
        await show_panes(page)
        await page.get_by_text("Before and now").click()
        await choose_an_event(page)
        await page.screenshot(path=DOCS / "inspector.png")
        await ask_in_playground(page)
        await page.screenshot(path=DOCS / "playground.png")


async def ask_in_playground(page: Page) -> None:
    await page.goto("/#/playground")
    await page.get_by_label("Message").fill(QUESTION)
    await page.get_by_label("Message").press("Enter")
    await page.locator(".answer-foot a").wait_for()


async def take_all(browser: Browser, url: str, number: int, folder: Path) -> None:
    themes: tuple[Theme, ...] = ("light", "dark")
    for theme in themes:
        for name, size in (("wide", WIDE), ("small", SMALL)):
            async with new_page(browser, url, size=size, theme=theme, expects=(404,)) as page:
                for view in (*VIEWS, f"requests/{number}"):
                    await page.goto(f"/#/{view}")
                    await page.wait_for_timeout(600)
                    if view == "playground":
                        await ask_in_playground(page)
                    await page.screenshot(path=folder / f"{name}-{theme}-{view.replace('/', '-')}.png")


async def main() -> None:
    engine = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    engine.lists(MODEL)
    async with started(engine), running_gateway(engine) as gateway, async_playwright() as playwright:
        number = await session(gateway, engine)
        engine.will(paced(*words(SAID), finish="stop", counted=usage(28, 0, 21)))
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        if sys.argv[1:2] == ["--all"]:
            await take_all(browser, gateway.url, number, Path(sys.argv[2]))
        else:
            await take_pictures(browser, gateway.url, number)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
