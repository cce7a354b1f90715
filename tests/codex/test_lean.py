"""A lean Codex: for a small model, or a small window, Codex sends few tools and little text."""

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.codex import Codex, Person, write_codex
from support.engine import OWN_FIELDS, MockEngine
from support.gateway import CHECKER, GatewayUnderTest, running_gateway, started

from antiphon.app.parts import Extensions
from antiphon.cli.codex.config import BASE_SETTINGS, LEAN_SETTINGS, known_settings
from antiphon.core.knowledge.codex_catalog import BASE_INSTRUCTIONS, LEAN_INSTRUCTIONS, catalog_entry
from antiphon.gateway.runs.observers import Observer
from antiphon.wire.responses import CreateResponse

pytestmark = pytest.mark.timeout(120, func_only=True)

SMALL, STRONG = "Qwen2.5-Coder-1.5B-Instruct", "Qwen3-Coder-480B"
TASK = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Say hello"]
ALL_TOOLS = [
    "exec_command", "write_stdin", "request_user_input", "apply_patch", "view_image", "multi_agent_v1", "get_goal",
    "create_goal", "update_goal", "web_search",
]  # fmt: skip
LEAN_TOOLS = ["exec_command", "write_stdin", "apply_patch"]


class Recorder(Observer):
    """What Codex has sent last."""

    def __init__(self) -> None:
        self.sent: list[CreateResponse] = []

    def request(self, response_id: str, request: CreateResponse) -> None:
        self.sent.append(request)

    @property
    def tools(self) -> list[str]:
        return [tool.get("name") or tool["type"] for tool in self.sent[-1].tools or []]

    @property
    def messages(self) -> list[str]:
        """Over a WebSocket, a request has only what is new since the one that it continues."""
        begins = max(at for at, request in enumerate(self.sent) if request.previous_response_id is None)
        items: list[Any] = [item for request in self.sent[begins:] for item in request.input or ()]
        return ["".join(part["text"] for part in item["content"]) for item in items]

    @property
    def length(self) -> int:
        """Of the prompt, in characters."""
        return len(msgspec.json.encode(self.sent[-1].tools)) + sum(map(len, self.messages))


@asynccontextmanager
async def gateway_for(
    person: Person, engine: MockEngine, recorder: Recorder, **settings: Any
) -> AsyncIterator[GatewayUnderTest]:
    extensions = Extensions(checker=CHECKER, observers=[lambda arrival: recorder])
    async with running_gateway(engine, extensions=extensions, **settings) as gateway:
        person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
        yield gateway


async def test_a_small_model_gets_three_tools_short_instructions_and_half_the_prompt(
    person: Person, engine: MockEngine
) -> None:
    engine.lists(SMALL)
    recorder = Recorder()
    async with gateway_for(person, engine, recorder):
        code, output = await person.types("codex", *TASK)
        assert code == 0, output
        assert "Hello world" in output
        assert (
            "fewer tools and shorter prompts, because the model has 1.5 billion parameters. `antiphon codex --full`" in output
        )
        for complaint in ("warning", "WARNING", "ERROR", "metadata", "ignor"):
            assert complaint not in output, output
        assert recorder.tools == LEAN_TOOLS
        assert recorder.messages == [LEAN_INSTRUCTIONS, "Say hello"]
        lean = recorder.length
        code, output = await person.types("codex", "--full", *TASK)
        assert code == 0, output
        assert "fewer tools" not in output
        assert recorder.tools == ALL_TOOLS
        assert recorder.messages[0] == LEAN_INSTRUCTIONS, "they fit the easier tools, which the model still gets"
        (catalog,) = person.home.rglob("models.json")
        (entry,) = msgspec.json.decode(catalog.read_bytes())["models"]
        assert entry == catalog_entry(SMALL, window=32768, vision=False) | {"base_instructions": LEAN_INSTRUCTIONS}
        assert len(recorder.messages) == 4, "skills and permissions, and the environment"
        assert lean < recorder.length / 4


async def test_with_help_off_and_for_a_strong_model_codex_is_as_it_was(person: Person, engine: MockEngine) -> None:
    engine.lists(SMALL, STRONG)
    recorder = Recorder()
    runs: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((), {"help": "off"}),
        # Other ways to write this: tests/cli/codex/test_arguments.py.
        (("-c", f'model="{SMALL}"', "--config", f"model={STRONG}"), {}),
        (("-c", f'model="{SMALL}"', f"-m{STRONG}"), {}),
    ]
    for arguments, settings in runs:
        async with gateway_for(person, engine, recorder, **settings):
            code, output = await person.types("codex", *TASK, *arguments)
            assert code == 0, output
            _, shown = await person.types("codex", "--print")
        assert recorder.tools == ALL_TOOLS
        assert recorder.messages[0] == BASE_INSTRUCTIONS
        assert not list(person.home.rglob("config.toml")), "that file is for Codex and its user"
        assert ("features.multi_agent" not in shown) is ("help" in settings)
        if settings:
            (catalog,) = person.home.rglob("models.json")
            entry = msgspec.json.decode(catalog.read_bytes())["models"][0]
            assert entry == catalog_entry(SMALL, window=32768, vision=False)


async def test_the_lean_configuration_is_shown_with_its_reason(person: Person, engine: MockEngine) -> None:
    engine.lists(SMALL)
    async with gateway_for(person, engine, Recorder()):
        code, output = await person.types("codex", "--print")
        assert code == 0
        assert "# Lean, because the model has 1.5 billion parameters: " in output
        shown = tomllib.loads(output)
        assert (shown["web_search"], shown["features"]["multi_agent"]) == ("disabled", False)
        assert shown["model_providers"]["antiphon"]["wire_api"] == "responses"
        code, output = await person.types("codex", "--print", "--full")
        assert code == 0
        assert tomllib.loads(output)["features"] == {"daemon_auto_start": False}
        assert "Lean" not in output


async def test_a_strong_model_with_a_small_window_keeps_the_instructions_for_its_tools(person: Person) -> None:
    engine = MockEngine(owned_by="vllm", own_fields=OWN_FIELDS["vllm"])
    engine._models["data"][0] |= {"id": STRONG, "max_model_len": 8192}
    recorder = Recorder()
    async with started(engine), gateway_for(person, engine, recorder):
        code, output = await person.types("codex", *TASK)
        assert code == 0, output
        assert recorder.tools == LEAN_TOOLS
        assert recorder.messages == [BASE_INSTRUCTIONS, "Say hello"]
        _, output = await person.types("codex", "--print")
        assert "# Lean, because the context window has 8192 tokens: " in output


async def test_instructions_of_the_project_are_kept_up_to_a_length(person: Person, engine: MockEngine) -> None:
    engine.lists(SMALL)
    (person.repository / "AGENTS.md").write_text("Be kind. " + "x" * 10_000)
    recorder = Recorder()
    async with gateway_for(person, engine, recorder):
        code, output = await person.types("codex", *TASK)
        assert code == 0, output
        assert "Be kind." in recorder.messages[1]
        assert len(recorder.messages[1]) < 3000


async def test_codex_takes_the_list_of_models_with_the_help_in_it(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    engine.lists(SMALL)
    recorder = Recorder()
    extensions = Extensions(checker=CHECKER, observers=[lambda arrival: recorder])
    async with running_gateway(engine, extensions=extensions) as gateway:
        _, listed = await gateway.get("/v1/models")
        assert listed["antiphon_help"][SMALL]["lean_codex"] is True
        codex = Codex(binary, gateway.url, tmp_path)
        codex.config["model"] = SMALL
        codex.config["model_providers.gateway.auth.command"] = "echo"
        codex.config["model_providers.gateway.auth.args"] = ["key"]
        del codex.config["model_catalog_json"]
        await codex.does("Say hello")
    assert recorder.messages[0] == LEAN_INSTRUCTIONS


# ---- settings that this version of Codex does not know ---------------------------------------------------------------


def test_this_codex_knows_all_of_the_settings(binary: Path) -> None:
    wanted = {**BASE_SETTINGS, **LEAN_SETTINGS}
    assert known_settings(str(binary), wanted) == wanted


def test_settings_that_codex_does_not_know_are_left_out(binary: Path) -> None:
    unknown = {"features.of_tomorrow": False, "of_tomorrow": 1, "tools.of_tomorrow.enabled": False}
    assert known_settings(str(binary), {**unknown, "features.apps": False}) == {"features.apps": False}


async def test_a_codex_that_cannot_check_its_settings_runs_with_all_of_its_features(
    person: Person, engine: MockEngine, tmp_path: Path
) -> None:
    engine.lists(SMALL)
    script = '[ "$1" != app-server ] || { echo "error: unexpected argument found" >&2; exit 2; }\necho "$@"'
    person.environment["PATH"] = write_codex(tmp_path / "old", script)
    async with gateway_for(person, engine, Recorder()):
        code, output = await person.types("codex", "exec", "Say hello")
    assert code == 0
    assert "it runs with all of its features" in output
    assert "model_provider" in output
    assert "features." not in output
