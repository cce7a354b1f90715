"""What Codex is told, and what of its own file is kept."""

import tomllib
from pathlib import Path

import pytest

from antiphon.cli.codex.config import (
    BASE_SETTINGS,
    LEAN_SETTINGS,
    CodexSettings,
    provider_settings,
    read_own_settings,
    to_options,
    to_toml,
    without_own,
)

FOREIGN = """\
# mine
approval_policy = "never"  # as I like it

[projects."/home/me/work"]
trust_level = "trusted"

[mcp_servers.docs]
url = "https://example.com/mcp"
"""
# As it was written by earlier versions.
OLD = """\
model = "qwen"
model_provider = "antiphon"
model_catalog_json = "/data/codex/models.json"
check_for_update_on_startup = false

# Lean, because the model has 1.5 billion parameters: what adds tools and text to every prompt is off.
# `antiphon codex --full` leaves it on.
web_search = "disabled"
features.apps = false

[model_providers.antiphon]
name = "Antiphon"
base_url = "http://127.0.0.1:8484/v1"
wire_api = "responses"
requires_openai_auth = false
stream_idle_timeout_ms = 1800000
"""


def test_options_and_file_say_the_same() -> None:
    settings = {
        **provider_settings("http://127.0.0.1:8484", "big", has_key=True, catalog=Path("/a/models.json")),
        **BASE_SETTINGS,
    }
    written = to_toml(settings, LEAN_SETTINGS, "I say so")
    options = to_options({**settings, **LEAN_SETTINGS})
    assert set(options[::2]) == {"-c"}
    assert tomllib.loads(written) == tomllib.loads("\n".join(options[1::2]))
    assert "# Lean, because I say so: " in written


def test_lines_can_be_pasted_in_front_of_the_tables_of_a_file() -> None:
    written = to_toml({**provider_settings("http://127.0.0.1:8484", "big", has_key=False), **BASE_SETTINGS}, {})
    assert tomllib.loads(f"{written}\n{FOREIGN}")["model_providers"]["antiphon"]["wire_api"] == "responses"


def test_the_file_of_codex_is_read_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FOREIGN)
    assert read_own_settings(tmp_path)["projects"] == {"/home/me/work": {"trust_level": "trusted"}}
    assert file.read_text() == FOREIGN


@pytest.mark.parametrize("key", ["", 'env_key = "ANTIPHON_CODEX_KEY"\n'])
def test_what_earlier_versions_wrote_is_removed(tmp_path: Path, key: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"{OLD}{key}\n{FOREIGN}")
    assert read_own_settings(tmp_path) == tomllib.loads(FOREIGN)
    assert file.read_text() == f"\n{FOREIGN}"


def test_a_file_that_names_antiphon_by_itself_is_kept(tmp_path: Path) -> None:
    mine = f'model_provider = "antiphon"\n{FOREIGN}'
    (tmp_path / "config.toml").write_text(mine)
    assert read_own_settings(tmp_path)["model_provider"] == "antiphon"
    assert (tmp_path / "config.toml").read_text() == mine


@pytest.mark.parametrize("content", [None, b"= broken", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_sets_nothing(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "config.toml").write_bytes(content)
    assert read_own_settings(tmp_path) == {}


def test_what_the_file_sets_is_left_to_it() -> None:
    wanted: CodexSettings = {
        "web_search": "disabled",
        "features.apps": False,
        "features.goals": False,
        "skills.include_instructions": False,
    }
    own = {"web_search": "live", "features": {"goals": True}, "skills": "odd"}
    assert without_own(wanted, own) == {"features.apps": False, "skills.include_instructions": False}
