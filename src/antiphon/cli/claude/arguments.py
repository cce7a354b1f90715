"""The arguments of `antiphon claude`: which are Antiphon's own, and which are for Claude Code."""

from collections.abc import Sequence

from antiphon.cli.clients.arguments import OwnFlags, before_dashes, first_word, values

OWN_FLAGS = OwnFlags(
    anywhere=frozenset({"--full", "--anyway"}),
    # After an argument for Claude Code, `--print` is its own: the long form of -p.
    when_first=frozenset({"-h", "--help", "--print", "--url", "--config"}),
    with_value=frozenset({"--url", "--config"}),
)
# The flags of Claude Code that are followed by a value, in front of a command.
VALUE_FLAGS = frozenset(
    {
        "--add-dir", "--agent", "--agents", "--allowedTools", "--allowed-tools", "--append-system-prompt", "--betas",
        "--disallowedTools", "--disallowed-tools", "--effort", "--fallback-model", "--file", "--input-format", "--json-schema",
        "--max-budget-usd", "--mcp-config", "--model", "-n", "--name", "--output-format", "--permission-mode", "--plugin-dir",
        "-r", "--resume", "--session-id", "--setting-sources", "--settings", "--system-prompt", "--tools",
    }
)  # fmt: skip
# With these, Claude Code only prints something.
PRINTING_FLAGS = frozenset({"-h", "--help", "-v", "--version"})
# The commands of Claude Code that ask no model. Any other word may be a prompt.
COMMANDS_WITHOUT_MODEL = frozenset(
    {
        "auth", "auto-mode", "doctor", "import", "install", "logs", "mcp", "plugin", "plugins", "purge", "rm", "setup-token",
        "stop", "kill", "update", "upgrade",
    }
)  # fmt: skip


def needs_model(arguments: Sequence[str]) -> bool:
    """Whether Claude Code, started with these arguments, may ask a model."""
    before = before_dashes(arguments)
    return PRINTING_FLAGS.isdisjoint(before) and first_word(before, VALUE_FLAGS) not in COMMANDS_WITHOUT_MODEL


def named_model(arguments: Sequence[str]) -> str | None:
    """The model that the arguments for Claude Code name."""
    return next(values(arguments, "--model"), None)


def has_flag(arguments: Sequence[str], *flags: str) -> bool:
    return any(argument.partition("=")[0] in flags for argument in before_dashes(arguments))
