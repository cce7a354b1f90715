"""aider, the coding agent: it has no tools, and reads what the model writes, so that all of it is passed through."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.client_conversations import messages
from support.clients import python_environment, run
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

Aider = Callable[..., Awaitable[str]]

CREATED = ("hello.py\n", "```\n", "print('hello')\n", "```\n")
CHANGED = ("hello.py\n```python\n<<<<<<< SEARCH\n", "print('hello')\n=======\n", "print('bye')\n>>>>>>> REPLACE\n```\n")


@pytest.fixture(scope="session")
def program() -> Path:
    return python_environment("aider").with_name("aider")


@pytest.fixture
def aider(program: Path, gateway: GatewayUnderTest, tmp_path: Path) -> Aider:
    """Runs it to its end, and returns what it shows."""
    environment = {"OPENAI_API_BASE": f"{gateway.url}/v1", "OPENAI_API_KEY": "any", "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
    quiet = ["--no-git", "--yes-always", "--no-check-update", "--analytics-disable", "--no-show-model-warnings"]

    async def aider(prompt: str, *given: str) -> str:
        command = [str(program), "--model", "openai/mock", *quiet, *given, "--message", prompt, "hello.py"]
        done = await run(command, tmp_path, **environment)
        assert done.code == 0, done.errors
        return done.output

    return aider


async def test_a_file_is_written_and_changed(aider: Aider, engine: MockEngine, tmp_path: Path) -> None:
    engine.will(text(*CREATED), text(*CHANGED))
    await aider("Greet me.")
    assert (tmp_path / "hello.py").read_text() == "print('hello')\n"
    assert engine.last.keys() == {"model", "messages", "temperature", "stream"}, "as aider sent it"
    assert messages(engine.last)[0]["role"] == "system"

    # It reads the new text of a file or the parts to replace, from a stream or from a whole answer.
    await aider("Say goodbye.", "--edit-format", "diff", "--no-stream")
    assert (tmp_path / "hello.py").read_text() == "print('bye')\n"
    assert "stream" not in engine.last
