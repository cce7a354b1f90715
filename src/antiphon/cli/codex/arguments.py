"""The arguments of `antiphon codex`: which are Antiphon's own, and which are for Codex."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from antiphon.cli.clients.arguments import OwnFlags, before_dashes, first_word, values

# Both have this one: Antiphon's is a file, Codex's is KEY=VALUE.
CONFIG_FLAG = "--config"
# The flags of Codex that name a model, directly and as a setting.
MODEL_FLAGS = ("-m", "--model")
SETTING_FLAGS = ("-c", CONFIG_FLAG)
# The other flags of Codex that are followed by a value, in front of a command.
VALUE_FLAGS = frozenset(
    {
        *MODEL_FLAGS, *SETTING_FLAGS, "-p", "--profile", "-s", "--sandbox", "-C", "--cd", "-a", "--ask-for-approval",
        "--add-dir", "--enable", "--disable", "--local-provider", "--remote", "--remote-auth-token-env",
    }
)  # fmt: skip
# With these, Codex only prints something.
PRINTING_FLAGS = frozenset({"-h", "--help", "-V", "--version"})
# The commands of Codex that ask no model. Any other word may be a prompt.
COMMANDS_WITHOUT_MODEL = frozenset(
    {
        "a", "apply", "archive", "cloud", "completion", "delete", "exec-server", "features", "help", "login", "logout", "mcp",
        "migrate-nfs-db", "migrate-rollouts", "plugin", "sandbox", "unarchive", "update",
    }
)  # fmt: skip


def _is_file(value: str) -> bool:
    """A name without `=` cannot be a setting of Codex: if there is no such file, Antiphon reports it."""
    return "=" not in value or Path(value).is_file()


OWN_FLAGS = OwnFlags(
    anywhere=frozenset({"--print", "--full", "--anyway"}),
    # `exec --help` and `mcp add --url` are Codex's.
    when_first=frozenset({"-h", "--help", "--url"}),
    with_value=frozenset({"--url"}),
    by_value={CONFIG_FLAG: _is_file},
)


def needs_model(arguments: Sequence[str]) -> bool:
    """Whether Codex, started with these arguments, may ask a model."""
    before = before_dashes(arguments)
    return PRINTING_FLAGS.isdisjoint(before) and first_word(before, VALUE_FLAGS) not in COMMANDS_WITHOUT_MODEL


def named_model(arguments: Sequence[str]) -> str | None:
    """The model that the arguments for Codex name."""
    settings = [setting.partition("=") for setting in values(arguments, CONFIG_FLAG, "-c")]
    # Codex prefers the flag. Of several settings, the last one counts.
    configured = [value.strip(" \"'") for name, _, value in reversed(settings) if name.strip() == "model"]
    return next(iter([*values(arguments, "--model", "-m"), *configured]), None)


def without_model(arguments: Sequence[str]) -> list[str]:
    """The arguments for Codex, but for the flag that names the model."""
    short, long = MODEL_FLAGS
    pairs = pairwise(["", *arguments])
    others = [argument for previous, argument in pairs if previous not in MODEL_FLAGS]
    return [argument for argument in others if argument != long and not argument.startswith((short, f"{long}="))]
