"""What Claude Code is told: variables, options, and the files of its folder."""

import json
from pathlib import Path

import pytest

from antiphon.cli.claude.environment import (
    LEAN_OPTIONS,
    MODEL_SLOTS,
    ROOM,
    elsewhere,
    gateway_variables,
    lean_options,
    make_folder,
    proxy_variables,
    window_variables,
)

URL = "http://127.0.0.1:8484"


def test_every_name_of_a_model_means_the_one_of_the_gateway() -> None:
    variables = gateway_variables(URL, "secret", "big")
    assert {variables[slot] for slot in MODEL_SLOTS} == {"big"}
    assert (variables["ANTHROPIC_BASE_URL"], variables["ANTHROPIC_AUTH_TOKEN"]) == (URL, "secret")


def test_without_a_key_some_key_is_sent() -> None:
    assert gateway_variables(URL, None, "big")["ANTHROPIC_AUTH_TOKEN"] == "none"


def test_what_leads_elsewhere_is_found() -> None:
    names = ["ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"]
    kept = ["PATH", "HTTPS_PROXY", "CLAUDE_CODE_USE_POWERSHELL_TOOL", "CLAUDE_CODE_EFFORT_LEVEL"]
    assert elsewhere(dict.fromkeys([*names, *kept], "1")) == names


@pytest.mark.parametrize(
    ("url", "environment", "hosts"),
    [
        (URL, {"HTTPS_PROXY": "http://proxy:3128"}, "127.0.0.1"),
        (URL, {"http_proxy": "http://proxy:3128", "no_proxy": "example.com"}, "example.com,127.0.0.1"),
        (URL, {"http_proxy": "http://proxy:3128", "NO_PROXY": "127.0.0.1"}, "127.0.0.1"),
        (URL, {}, None),
        ("https://gateway.example.com", {"HTTPS_PROXY": "http://proxy:3128"}, None),
    ],
)
def test_no_proxy_is_asked_for_a_gateway_on_this_machine(url: str, environment: dict[str, str], hosts: str | None) -> None:
    assert proxy_variables(url, environment) == ({} if hosts is None else {"NO_PROXY": hosts, "no_proxy": hosts})


# ---- the window ------------------------------------------------------------------------------------------------------


def compacts_at(window: int) -> int:
    """Tokens of a prompt from which on Claude Code compacts the conversation."""
    variables = window_variables(window)
    told, answer = int(variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]), int(variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"])
    return told - min(answer, 20_000) - 13_000


@pytest.mark.parametrize(("window", "prompt"), [(8_192, 5_120), (32_768, 20_480), (131_072, 98_072), (262_144, 229_144)])
def test_there_is_room_for_work_before_a_conversation_is_compacted(window: int, prompt: int) -> None:
    assert compacts_at(window) == prompt
    answer = int(window_variables(window)["CLAUDE_CODE_MAX_OUTPUT_TOKENS"])
    assert prompt + min(answer, 20_000) < window


def test_a_large_window_is_told_as_it_is() -> None:
    assert window_variables(200_000) == {
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "200000",
        "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
        "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS": "25000",
    }


@pytest.mark.parametrize("lean", [True, False])
def test_the_least_window_has_room_for_the_first_prompt_and_as_much_work_again(lean: bool) -> None:
    size = ROOM.lean if lean else ROOM.full
    assert compacts_at(size.needed) > 1.5 * size.prompt
    assert ROOM.is_in(size.needed, lean=lean)
    assert not ROOM.is_in(size.needed - 1, lean=lean)


# ---- lean ------------------------------------------------------------------------------------------------------------


def test_a_lean_claude_code_keeps_what_its_user_chooses() -> None:
    assert lean_options(["-p", "Say hello"]) == list(LEAN_OPTIONS)
    chosen = ["--tools", "Bash", "--append-system-prompt=Be kind.", "--settings", "mine.json"]
    assert lean_options(chosen) == []


# ---- the folder ------------------------------------------------------------------------------------------------------


def test_what_is_in_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "antiphon" / "claude"
    make_folder(home)
    assert json.loads((home / ".claude.json").read_text())["hasCompletedOnboarding"] is True
    (home / "settings.json").write_text('{"permissions": {"defaultMode": "plan"}}')
    make_folder(home)
    assert json.loads((home / "settings.json").read_text()) == {"permissions": {"defaultMode": "plan"}}
