"""The variables and options that Claude Code gets from us, its folder, and the room that it needs in a context window.

Everything is set for the process that is started, and for no other. The user's own configuration is neither read nor written.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from antiphon.cli.claude.arguments import has_flag
from antiphon.cli.clients.program import Program
from antiphon.cli.clients.window import Room, Size
from antiphon.cli.gateway_client import is_local
from antiphon.core.knowledge.codex_catalog import LEAN_INSTRUCTIONS

CLAUDE = Program("Claude Code", "claude", "@anthropic-ai/claude-code", "ANTIPHON_API_KEY")
ROOM = Room(
    program=CLAUDE,
    lean=Size(prompt=2_500, needed=8_192),
    full=Size(prompt=13_000, needed=32_768),
    better=65_536,
    model_flag="--model",
)

Environment = Mapping[str, str]

# What Claude Code would send to anybody but the gateway.
QUIET: Environment = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_FEATURE_FLAGS": "1",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY": "1",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_FEEDBACK_COMMAND": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
}
# Which model each of Claude Code's own names means. Not Fable: the prompt would say that the model is Fable. Who chooses it
# gets the gateway's default model.
MODEL_SLOTS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
# What Claude Code calls models with --model: each of these is one of the slots.
OWN_NAMES = frozenset({"default", "haiku", "opus", "opusplan", "sonnet"})
# Variables of the user that would send Claude Code to another server, or to another model there.
ELSEWHERE_PREFIX = "ANTHROPIC_"
ELSEWHERE = frozenset(
    {
        "CLAUDE_CODE_API_BASE_URL", "CLAUDE_CODE_AUTO_MODE_MODEL", "CLAUDE_CODE_BG_CLASSIFIER_MODEL",
        "CLAUDE_CODE_ENABLE_TELEMETRY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_SUBAGENT_MODEL_FORCE",
        "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_GATEWAY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_WORKFLOW_SUBAGENT_MODEL",
    }
)  # fmt: skip
# Claude Code sends some key in any case.
NO_KEY = "none"
# Milliseconds. A large prompt takes a small machine longer than Claude Code's own ten minutes.
REQUEST_TIMEOUT = 1_800_000


def elsewhere(environment: Environment) -> list[str]:
    """Those of these variables that must not reach Claude Code."""
    return sorted(name for name in environment if name.startswith(ELSEWHERE_PREFIX) or name in ELSEWHERE)


def folder_variables(home: Path) -> Environment:
    return {"CLAUDE_CONFIG_DIR": str(home), **QUIET}


def gateway_variables(url: str, key: str | None, model: str | None) -> Environment:
    """What makes Claude Code use the gateway. `url`: without /v1. `model`: None if it is not known."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": key or NO_KEY,
        "API_TIMEOUT_MS": str(REQUEST_TIMEOUT),
        **(dict.fromkeys(MODEL_SLOTS, model) if model is not None else {}),
    }


# Variables with the URL of a proxy, and those with the hosts that are reached without one.
PROXIES, NO_PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), ("NO_PROXY", "no_proxy")


def proxy_variables(url: str, environment: Environment) -> Environment:
    """A proxy cannot reach a gateway on this machine, and Claude Code would ask it to."""
    has_proxy = any(name.upper() in PROXIES for name in environment)
    host = urlsplit(url).hostname or ""
    if not has_proxy or not is_local(url):
        return {}
    hosts = [environment[name] for name in NO_PROXY if environment.get(name)]
    return dict.fromkeys(NO_PROXY, ",".join(dict.fromkeys([*hosts, host])))


# ---- the context window ----------------------------------------------------------------------------------------------

# Claude Code's own most for one answer, and the share of a window that one answer, or one file that is read, may take.
MOST_OUTPUT, SHARE = 32_000, 4
# Claude Code compacts a conversation when the window has so many tokens left beside one answer: most of a small window.
OWN_RESERVE = 13_000
# The share of a small window that is kept free instead.
RESERVED_SHARE = 8


def window_variables(window: int) -> Environment:
    """What Claude Code gets to know of the context window of the model, in tokens."""
    most = min(MOST_OUTPUT, window // SHARE)
    # So much more that it compacts when a small window has its eighth left. What does not fit is refused, and then compacted.
    spared = max(0, OWN_RESERVE - window // RESERVED_SHARE)
    return {
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(window + spared),
        # It does not offer the same model with a window of a million.
        "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(most),
        "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS": str(min(25_000, window // SHARE)),
    }


# ---- lean ------------------------------------------------------------------------------------------------------------

LEAN_TOOLS = "Bash,Edit,Read,Write"
LEAN_VARIABLES: Environment = {
    # The output of one command may have so many characters.
    "BASH_MAX_OUTPUT_LENGTH": "8000",
    # No tool is loaded later.
    "ENABLE_TOOL_SEARCH": "false",
    # Its own skills. With --disable-slash-commands, /compact, /clear and all others would be gone, too.
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
}
# A prompt of 12,000 tokens in place of 19,000: most tools are loaded once they are searched. Older versions need it set.
FULL_VARIABLES: Environment = {"ENABLE_TOOL_SEARCH": "true"}
# What a commit or a pull request would say about its author.
NO_ATTRIBUTION = '{"attribution":{"commit":"","pr":""}}'
LEAN_PROMPT = f"--system-prompt={LEAN_INSTRUCTIONS}"
# An option, and the flags of the user that take its place.
LEAN_OPTIONS: Mapping[str, Sequence[str]] = {
    f"--tools={LEAN_TOOLS}": ("--tools",),
    LEAN_PROMPT: ("--system-prompt", "--system-prompt-file", "--append-system-prompt", "--agent"),
    f"--settings={NO_ATTRIBUTION}": ("--settings",),
}


def lean_options(arguments: Sequence[str]) -> list[str]:
    """Those that the arguments for Claude Code do not set otherwise."""
    return [option for option, others in LEAN_OPTIONS.items() if not has_flag(arguments, *others)]


# Beside a system prompt that it is given, 2.1.260 does not tell the model its folder, and its tools want absolute paths.
# 2.1.290 does, at the end of the first prompt: so the beginning is the same in all folders, and comes from the cache.
TELLS_FOLDER = (2, 1, 290)
FOLDER = "--append-system-prompt=The user's folder is {folder}"
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# Seconds that Claude Code may take to say its version.
VERSION_TIMEOUT = 10.0


def folder_options(binary: str, lean: Sequence[str]) -> list[str]:
    """The folder in which it is started, for a version that does not tell the model. `lean`: the options for a lean one."""
    if LEAN_PROMPT not in lean or (version := _version(binary)) is None or version >= TELLS_FOLDER:
        return []
    return [FOLDER.format(folder=os.getcwd())]


def _version(binary: str) -> tuple[int, ...] | None:
    """None: it does not say it."""
    try:
        said = subprocess.run(
            [binary, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = VERSION.match(said.stdout.decode(errors="replace"))
    return tuple(map(int, found.groups())) if found is not None else None


# ---- the folder ------------------------------------------------------------------------------------------------------

# What is in the folder at first. From then on, it belongs to Claude Code and its user.
FILES = {
    # Themes and offers, which somebody would have to answer.
    ".claude.json": {"hasCompletedOnboarding": True, "hasSeenAutoDefaultNudge": True},
    # In the mode `auto` the model would judge its own calls, with one more request for each. And no page that is fetched is
    # reported to Anthropic first.
    "settings.json": {"permissions": {"defaultMode": "default"}, "skipWebFetchPreflight": True},
}


def make_folder(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        if not (home / name).exists():
            (home / name).write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
