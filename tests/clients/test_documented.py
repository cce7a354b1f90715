"""docs/clients.md: every program and every configuration on it works as it is there."""

import re
import sys
from pathlib import Path

import pytest
from support.clients import FOLDER, Run, node_packages, program, python_environment, run
from support.doc_blocks import ROOT
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
# Section → its block.
BLOCKS = {
    section.partition("\n")[0]: found[2]
    for section in re.split(r"\n#{2,3} ", PAGE)[1:]
    if (found := re.search(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
}
# The environment that has the packages of a section; None: that of the tests.
PYTHON = {
    "openai (Python)": None,
    "anthropic (Python)": "openai3",
    "OpenAI Agents SDK (Python)": None,
    "LangChain (Python)": "openai3",
    "Pydantic AI": "openai3",
    "Semantic Kernel": "openai2",
    "Strands": "openai2",
    "LlamaIndex": "openai2",
    "Haystack": "openai3",
    "Inspect": "inspect",
    "openai, Chat Completions (Python)": None,
    "LangChain, Chat Completions (Python)": "openai3",
    "Pydantic AI, Chat Completions": "openai3",
    "LangChain, Messages (Python)": "openai3",
    "Pydantic AI, Messages": "openai3",
}
NODE = [
    *("openai (Node)", "anthropic (Node)", "OpenAI Agents SDK (Node)", "Vercel's AI SDK", "Mastra", "LangChain (Node)"),
    *("openai, Chat Completions (Node)", "Vercel's AI SDK, Chat Completions"),
    "Vercel's AI SDK, Messages",
]
OPENCODE = ["opencode", "opencode, Chat Completions"]
CONFIGURED = [*OPENCODE, "Copilot CLI", "llm", "Qwen Code", "aider"]


def test_every_block_is_tested() -> None:
    assert sorted(BLOCKS) == sorted([*PYTHON, *NODE, *CONFIGURED])


def block(section: str, gateway: GatewayUnderTest) -> str:
    return re.sub(r"\bMODEL\b", "mock", BLOCKS[section].replace("http://127.0.0.1:8484", gateway.url))


def check(done: Run, engine: MockEngine) -> None:
    assert done.code == 0, done.errors
    assert "Hello world" in done.output
    assert "Name a colour." in str(engine.last["messages"])


@pytest.fixture
def python(section: str) -> str:
    """The interpreter for a section. A fixture, because the time of the installation does not count for the test."""
    environment = PYTHON[section]
    return str(python_environment(environment)) if environment else sys.executable


@pytest.mark.parametrize("section", PYTHON)
async def test_a_program_in_python(
    section: str, python: str, gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path
) -> None:
    check(await run([python, "-c", block(section, gateway)], tmp_path), engine)


@pytest.mark.parametrize("section", NODE)
async def test_a_program_in_javascript(section: str, gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    node_packages()
    # Packages are found beside the file.
    (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
    file = tmp_path / "program.mjs"
    file.write_text(block(section, gateway), encoding="utf-8")
    check(await run([program("node"), str(file)], tmp_path), engine)


@pytest.mark.parametrize("section", OPENCODE)
async def test_the_configuration_of_opencode(
    section: str, gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path
) -> None:
    (tmp_path / "opencode.json").write_text(block(section, gateway), encoding="utf-8")
    quiet = {"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    command = [str(node_packages() / "node_modules" / ".bin" / "opencode"), "run", "--title", "Colours", "Name a colour."]
    check(await run(command, tmp_path, **quiet), engine)


async def test_the_environment_of_copilot(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    environment = dict(re.findall(r"(COPILOT_\w+)=(\S+)", block("Copilot CLI", gateway)))
    assert len(environment) == 5
    command = [str(node_packages() / "node_modules" / ".bin" / "copilot"), "--prompt", "Name a colour."]
    check(await run(command, tmp_path, COPILOT_HOME=str(tmp_path / "copilot"), **environment), engine)


async def test_the_environment_of_qwen_code(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    environment = dict(re.findall(r"(OPENAI_\w+)=(\S+)", block("Qwen Code", gateway)))
    assert len(environment) == 3
    command = [str(node_packages() / "node_modules" / ".bin" / "qwen"), "Name a colour."]
    check(await run(command, tmp_path, **environment), engine)


async def test_the_environment_of_aider(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    given = block("aider", gateway)
    environment = dict(re.findall(r"(OPENAI_\w+)=(\S+)", given))
    assert len(environment) == 2
    _, command = given.strip().split("\n")
    aider, *options = command.split()
    program = str(python_environment("aider").with_name(aider))
    check(await run([program, *options, "--no-git", "--message", "Name a colour."], tmp_path, **environment), engine)


async def test_the_configuration_of_llm(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(block("llm", gateway), encoding="utf-8")
    llm = str(python_environment("openai3").with_name("llm"))
    environment = {"LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "any"}
    check(await run([llm, "-m", "antiphon", "Name a colour."], tmp_path, **environment), engine)
