import asyncio
import sys
from pathlib import Path

from support.engine import MockEngine, Refusal, text

EXAMPLE = Path(__file__).parents[2] / "examples" / "terminal_chat.py"


async def run(url: str, lines: str) -> str:
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLE), f"{url}/v1", "mock", stdin=pipe, stdout=pipe)
    printed, _ = await program.communicate(lines.encode())
    assert program.returncode == 0
    return printed.decode()


async def test_a_conversation(engine: MockEngine) -> None:
    engine.will(text("Hello", " world"), text("Again"))
    assert await run(engine.url, "Hi\nAnd?\n") == "Hello world\nAgain\n"
    said = [(message["role"], message["content"]) for message in engine.last["messages"]]
    assert said == [("user", "Hi\n"), ("assistant", "Hello world"), ("user", "And?\n")]


async def test_errors_are_printed(engine: MockEngine) -> None:
    engine.will(Refusal(429, {"error": {"message": "slow down"}}))
    assert await run(engine.url, "Hi\n") == "[slow down]\n"
    url = engine.url
    await engine.stop()
    assert "The connection to the engine failed" in await run(url, "Hi\n")
