"""The configuration that Codex gets. For some models, what adds tools and text to every prompt is off."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

KEY_VARIABLE = "ANTIPHON_CODEX_KEY"
# Seconds that Codex has to check its settings. It takes half a second.
CHECK_TIMEOUT = 20.0
# How it names a setting that it does not take, or the table that the setting is in.
NAMED = re.compile(r"`([\w.]+)`")

CONFIG = """\
model = {model}
model_provider = "antiphon"
model_catalog_json = {catalog}
check_for_update_on_startup = false
{lean}
[model_providers.antiphon]
name = "Antiphon"
base_url = {base_url}
wire_api = "responses"
requires_openai_auth = false
stream_idle_timeout_ms = 1800000
{key}"""

LEAN = """
# Lean, because {reason}: what adds tools and text to every prompt is off.
# `antiphon codex --full` leaves it on.
{settings}"""

Value = bool | int | str
Settings = Mapping[str, Value]

# What makes Codex lean. Each line takes tools or text out of the prompt.
LEAN_SETTINGS: Settings = {
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
    # The shared server of all sessions adds tools, too, and stays when Codex has ended.
    "features.daemon_auto_start": False,
    # Messages in front of the user's.
    "skills.include_instructions": False,
    "include_permissions_instructions": False,
    "include_collaboration_mode_instructions": False,
    "include_environment_context": False,
    # Of AGENTS.md, so many bytes.
    "project_doc_max_bytes": 2048,
}


def configuration(url: str, model: str, catalog: Path, *, has_key: bool, lean: str = "") -> str:
    """`lean`: what `lean_part` has made, if Codex is to be lean."""
    return CONFIG.format(
        model=_quoted(model),
        catalog=_quoted(str(catalog)),
        base_url=_quoted(url + "/v1"),
        key=f'env_key = "{KEY_VARIABLE}"\n' if has_key else "",
        lean=lean,
    )


def lean_part(reason: str, settings: Settings) -> str:
    lines = (f"{name} = {_quoted(value)}\n" for name, value in settings.items())
    return LEAN.format(reason=reason, settings="".join(lines))


def _quoted(value: Value) -> str:
    """JSON and TOML have these values in common."""
    return msgspec.json.encode(value).decode()


def known_settings(binary: str, wanted: Settings = LEAN_SETTINGS) -> Settings:
    """Those that this version of Codex knows: it warns about others. None of them, if it cannot check them."""
    known = wanted
    while known and (complaint := _complaint(binary, known)) is not None:
        refused = NAMED.findall(complaint)
        left = {name: value for name, value in known.items() if not any(f"{name}.".startswith(f"{each}.") for each in refused)}
        known = left if len(left) < len(known) else {}
    return known


def _complaint(binary: str, settings: Settings) -> str | None:
    """What Codex says about the first setting that it does not know; None: it takes them all."""
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={_quoted(value)}")]
    command = [binary, "app-server", "--strict-config", "--print-startup-config", *options]
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
