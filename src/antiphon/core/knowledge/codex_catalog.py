"""The entry of a model in the catalog that Codex reads: its limits, and the instructions that Codex sends to it."""

from typing import Any

from antiphon.core.knowledge.help import NO_HELP, Help

# One tool output may take a quarter of the context window, and at most this many tokens. A small model reads slowly, and loses
# its task in a long output.
OUTPUT_SHARE = 4
MAX_OUTPUT_TOKENS = 10_000
MAX_LEAN_OUTPUT_TOKENS = 2_000

BASE_INSTRUCTIONS = """\
You are a coding agent. You work in the user's terminal, in their repository, together with them, through the Codex CLI.

How to work
- Find out before you act: read the files that matter, and search with `rg` where it is there.
- Do what was asked, all of it, and nothing else. Keep changes small and in the style of the code around them.
- When a task takes several steps, go on until it is done or until you need an answer that only the user can give.
- Use the tools that you are offered, by their exact names, and with arguments that fit their schema. Wait for a tool's result
  before you rely on it. If a call fails, read the error and fix the call; do not repeat it unchanged.
- Edit files with the `apply_patch` tool. Its input is a patch in this form, and nothing around it:
*** Begin Patch
*** Update File: path/to/file.py
@@ def example():
-    old line
+    new line
*** End Patch
  `*** Add File: path` is followed by lines that each begin with `+`; `*** Delete File: path` stands alone.
- Check what you did: run the tests or the program where that is possible, and say so if it is not.
- Never undo changes that you did not make, and run nothing destructive that was not asked for.

How to answer
- Be brief and plain. Say what you did and what you found, with file names; do not paste files that the user can open.
- Say openly what you could not do, and why."""

# For a model that is offered easier tools. Their descriptions say what each is for. No example: small models copy it.
LEAN_INSTRUCTIONS = """\
You are a coding agent in the user's folder. You do the work yourself, by calling tools. Call one
tool at a time and wait for its result.
Read a file before you change it. Never guess what a file has: look, or let a command find out.
When the work is done, say so in one short sentence."""


def catalog_entry(model: str, *, window: int, vision: bool, help: Help = NO_HELP) -> dict[str, Any]:
    most_output = MAX_LEAN_OUTPUT_TOKENS if help.lean_codex else MAX_OUTPUT_TOKENS
    return {
        "slug": model,
        "display_name": model.rpartition("/")[2] or model,
        "description": "Served through Antiphon",
        "default_reasoning_level": "medium",
        "supported_reasoning_levels": [
            {"effort": "low", "description": "Answers soon"},
            {"effort": "medium", "description": "Thinks before it answers"},
            {"effort": "high", "description": "Takes its time"},
        ],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "base_instructions": LEAN_INSTRUCTIONS if help.easier_tools else BASE_INSTRUCTIONS,
        "supports_reasoning_summaries": True,
        "support_verbosity": True,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": min(most_output, max(1000, window // OUTPUT_SHARE))},
        "supports_parallel_tool_calls": True,
        "context_window": window,
        "max_context_window": window,
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if vision else ["text"],
    }
