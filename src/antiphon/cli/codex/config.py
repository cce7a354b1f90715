"""The settings that Codex gets from us, as options: its file, config.toml, belongs to Codex and its user. And the room that
Codex needs in the context window of a model."""

import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.clients.program import Program
from antiphon.cli.clients.window import Room, Size
from antiphon.cli.gateway_client import KEY_VARIABLE

CONFIG_FILE = "config.toml"
# Seconds that Codex has to check its settings. It takes less than half a second.
CHECK_TIMEOUT = 20.0
# How it names a setting that it does not take, or the table that the setting is in.
NAMED = re.compile(r"`([\w.]+)`")
PROVIDER = "model_providers.antiphon"

LEAN = """
# Lean, because {reason}: what adds tools and text to every prompt is off.
# `antiphon codex --full` leaves it on.
"""

Value = bool | int | str
CodexSettings = Mapping[str, Value]

# For every model, if this version of Codex knows them.
BASE_SETTINGS: CodexSettings = {
    # The shared server of all sessions stays when Codex has ended, with half a gigabyte. It keeps an old catalog of models, and
    # it adds tools.
    "features.daemon_auto_start": False,
}

# What makes Codex lean. Each line takes tools or text out of the prompt.
LEAN_SETTINGS: CodexSettings = {
    # Tools.
    "web_search": "disabled",
    "tools.experimental_request_user_input.enabled": False,
    "features.apps": False,
    "features.browser_use": False,
    "features.browser_use_external": False,
    "features.computer_use": False,
    "features.goals": False,
    "features.image_generation": False,
    "features.multi_agent": False,
    "features.plugins": False,
    "features.skill_search": False,
    "features.sleep_tool": False,
    "features.tool_suggest": False,
    "features.view_image": False,
    # Worktrees are tools of a server that the interactive Codex starts, unless one of this name is switched off.
    "features.worktrees": False,
    "mcp_servers.codex_worktrees.url": "http://127.0.0.1:9/",
    "mcp_servers.codex_worktrees.enabled": False,
    # Messages in front of the user's.
    "skills.include_instructions": False,
    "include_permissions_instructions": False,
    "include_collaboration_mode_instructions": False,
    "include_environment_context": False,
    # Of AGENTS.md, so many bytes.
    "project_doc_max_bytes": 2048,
}


def provider_settings(url: str, model: str | None, *, has_key: bool, catalog: Path | None = None) -> CodexSettings:
    """What makes Codex use the gateway. `catalog`: the file that describes its models."""
    return {
        **({"model": model} if model is not None else {}),
        "model_provider": "antiphon",
        **({"model_catalog_json": str(catalog)} if catalog is not None else {}),
        "check_for_update_on_startup": False,
        f"{PROVIDER}.name": "Antiphon",
        f"{PROVIDER}.base_url": f"{url}/v1",
        f"{PROVIDER}.wire_api": "responses",
        f"{PROVIDER}.requires_openai_auth": False,
        f"{PROVIDER}.stream_idle_timeout_ms": 1_800_000,
        # A WebSocket carries only what is new of a conversation. Where none can be opened, Codex uses HTTP.
        f"{PROVIDER}.supports_websockets": True,
        **({f"{PROVIDER}.env_key": KEY_VARIABLE} if has_key else {}),
    }


def to_options(settings: CodexSettings) -> list[str]:
    """As arguments of Codex. Those of its user come after them, and win."""
    return [word for name, value in settings.items() for word in ("-c", f"{name}={_quoted(value)}")]


def to_toml(settings: CodexSettings, lean: CodexSettings, reason: str = "") -> str:
    """As lines for a file, to be pasted in front of its tables. `reason`: why Codex is lean."""
    lines = [_line(name, value) for name, value in settings.items() if not name.startswith(PROVIDER)]
    lean_lines = [LEAN.format(reason=reason), *(_line(name, value) for name, value in lean.items())] if lean else []
    provider = [
        _line(name.removeprefix(f"{PROVIDER}."), value) for name, value in settings.items() if name.startswith(PROVIDER)
    ]
    return "".join([*lines, *lean_lines, f"\n[{PROVIDER}]\n", *provider])


def _line(name: str, value: Value) -> str:
    return f"{name} = {_quoted(value)}\n"


def _quoted(value: Value) -> str:
    """JSON and TOML have these values in common."""
    return msgspec.json.encode(value).decode()


# ---- what this version of Codex knows --------------------------------------------------------------------------------


def known_settings(binary: str, wanted: CodexSettings) -> CodexSettings:
    """Those that this version of Codex knows: it warns about others. None of them, if it cannot check them."""
    known = wanted
    while known and (complaint := _complaint(binary, known)) is not None:
        refused = NAMED.findall(complaint)
        left = {name: value for name, value in known.items() if not any(f"{name}.".startswith(f"{each}.") for each in refused)}
        known = left if len(left) < len(known) else {}
    return known


def _complaint(binary: str, settings: CodexSettings) -> str | None:
    """What Codex says about the first setting that it does not know; None: it takes them all."""
    command = [binary, "app-server", "--strict-config", "--print-startup-config", *to_options(settings)]
    # Not in the user's own folders: what is configured there is not asked about.
    with tempfile.TemporaryDirectory() as home:
        try:
            checked = subprocess.run(
                command, env=os.environ | {"CODEX_HOME": home}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=CHECK_TIMEOUT, encoding="utf-8",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as failed:
            return str(failed)
    return None if checked.returncode == 0 else checked.stdout + checked.stderr


# ---- what Codex or its user has written ------------------------------------------------------------------------------

# What earlier versions of Antiphon wrote at the beginning of the file, whenever Codex was started.
_OLD_SETTINGS = re.compile(
    r'\Amodel = .*\nmodel_provider = "antiphon"\n(?:.*\n)*?stream_idle_timeout_ms = \d+\n(?:env_key = .*\n)?'
)


def read_own_settings(home: Path) -> dict[str, Any]:
    """Of the file in the folder of Codex: projects that are trusted, and all that was chosen there. It is never written, but
    what an earlier version of Antiphon left in it is removed."""
    file = home / CONFIG_FILE
    try:
        written = file.read_text(encoding="utf-8")
        own = _OLD_SETTINGS.sub("", written)
        if own != written:
            file.write_text(own, encoding="utf-8")
        return tomllib.loads(own)
    except (FileNotFoundError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        # Codex says itself what is wrong with it.
        return {}


def without_own(settings: CodexSettings, own: Mapping[str, Any]) -> CodexSettings:
    """Those that the file does not set otherwise."""
    return {name: value for name, value in settings.items() if not _is_set(name, own)}


def _is_set(name: str, own: Mapping[str, Any]) -> bool:
    table: Any = own
    for key in name.split("."):
        if not isinstance(table, dict) or key not in table:
            return False
        table = table[key]
    return True


# ---- the context window ----------------------------------------------------------------------------------------------

CODEX = Program("Codex", "codex", "@openai/codex", KEY_VARIABLE)
ROOM = Room(
    program=CODEX,
    lean=Size(prompt=1_300, needed=4_096),
    full=Size(prompt=6_700, needed=12_288),
    better=16_384,
    model_flag="-m",
)
