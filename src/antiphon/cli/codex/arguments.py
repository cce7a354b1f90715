"""The arguments of `antiphon codex`: which are Antiphon's own, and which are for Codex."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

# Codex has no flags of these names.
OWN_FLAGS = frozenset({"--print", "--full", "--anyway"})
# Codex has these, too. They are Antiphon's in front of all that is for Codex: `exec --help` and `mcp add --url` are not.
URL_FLAG = "--url"
OWN_WHEN_FIRST = frozenset({"-h", "--help", URL_FLAG})
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


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Antiphon's, then those for Codex, in their order. All that follows the first `--` is for Codex."""
    ours: list[str] = []
    theirs: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return ours, theirs + rest
        if argument in OWN_FLAGS or (not theirs and argument.partition("=")[0] in OWN_WHEN_FIRST):
            ours.append(argument)
            if argument == URL_FLAG:
                ours.extend(rest[:1])
                del rest[:1]
        elif argument == CONFIG_FLAG:
            value = [rest.pop(0)] if rest else []
            (ours if not value or _is_file(value[0]) else theirs).extend([argument, *value])
        elif argument.startswith(f"{CONFIG_FLAG}="):
            (ours if _is_file(argument.removeprefix(f"{CONFIG_FLAG}=")) else theirs).append(argument)
        else:
            theirs.append(argument)
    return ours, theirs


def _is_file(value: str) -> bool:
    """A name without `=` cannot be a setting of Codex: if there is no such file, Antiphon reports it."""
    return "=" not in value or Path(value).is_file()


def needs_model(arguments: Sequence[str]) -> bool:
    """Whether Codex, started with these arguments, may ask a model."""
    before = list(takewhile(lambda each: each != "--", arguments))
    return PRINTING_FLAGS.isdisjoint(before) and _first_word(before) not in COMMANDS_WITHOUT_MODEL


def _first_word(arguments: Sequence[str]) -> str | None:
    """The first argument that is neither a flag nor its value."""
    pairs = pairwise(["", *arguments])
    return next((word for flag, word in pairs if not word.startswith("-") and flag not in VALUE_FLAGS), None)


def named_model(arguments: Sequence[str]) -> str | None:
    """The model that the arguments for Codex name."""
    settings = [setting.partition("=") for setting in _values(arguments, *SETTING_FLAGS)]
    # Codex prefers the flag. Of several settings, the last one counts.
    configured = [value.strip(" \"'") for name, _, value in reversed(settings) if name.strip() == "model"]
    return next(iter([*_values(arguments, *MODEL_FLAGS), *configured]), None)


def without_model(arguments: Sequence[str]) -> list[str]:
    """The arguments for Codex, but for the flag that names the model."""
    short, long = MODEL_FLAGS
    pairs = pairwise(["", *arguments])
    others = [argument for previous, argument in pairs if previous not in MODEL_FLAGS]
    return [argument for argument in others if argument != long and not argument.startswith((short, f"{long}="))]


def _values(arguments: Sequence[str], short: str, long: str) -> Iterator[str]:
    """What the arguments give to a flag, written -f X, -fX, -f=X, --flag X or --flag=X."""
    for argument, following in pairwise([*takewhile(lambda each: each != "--", arguments), ""]):
        if argument in (short, long):
            yield following
        elif argument.startswith(f"{long}="):
            yield argument.removeprefix(f"{long}=")
        elif argument.startswith(short):
            yield argument.removeprefix(short).removeprefix("=")
