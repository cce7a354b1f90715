"""The arguments of a command that runs another program: which are Antiphon's own, and which are for the program."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from msgspec import Struct


class OwnFlags(Struct, frozen=True):
    """Which flags are Antiphon's."""

    # Wherever they are: the program has none of these names.
    anywhere: frozenset[str]
    # In front of all that is for the program, which has flags of these names, too.
    when_first: frozenset[str]
    # Those of them that are followed by a value.
    with_value: frozenset[str]
    # Flags that both have, and whether a value makes one Antiphon's.
    by_value: Mapping[str, Callable[[str], bool]] = {}


def split_arguments(arguments: Sequence[str], own: OwnFlags) -> tuple[list[str], list[str]]:
    """Antiphon's, then those for the program, in their order. All that follows the first `--` is for the program."""
    ours: list[str] = []
    theirs: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        flag, equals, value = argument.partition("=")
        if argument == "--":
            return ours, theirs + rest
        if argument in own.anywhere or (not theirs and flag in own.when_first):
            ours.append(argument)
            if argument in own.with_value:
                ours.extend(rest[:1])
                del rest[:1]
        elif argument in own.by_value:
            following = [rest.pop(0)] if rest else []
            is_ours = not following or own.by_value[argument](following[0])
            (ours if is_ours else theirs).extend([argument, *following])
        elif equals and flag in own.by_value:
            (ours if own.by_value[flag](value) else theirs).append(argument)
        else:
            theirs.append(argument)
    return ours, theirs


def before_dashes(arguments: Sequence[str]) -> list[str]:
    """Those in front of the first `--`: no flag follows it."""
    return list(takewhile(lambda each: each != "--", arguments))


def first_word(arguments: Sequence[str], value_flags: frozenset[str]) -> str | None:
    """The first argument that is neither a flag nor its value."""
    pairs = pairwise(["", *arguments])
    return next((word for flag, word in pairs if not word.startswith("-") and flag not in value_flags), None)


def values(arguments: Sequence[str], long: str, short: str | None = None) -> Iterator[str]:
    """What the arguments give to a flag, written --flag X or --flag=X, or as its short form: -f X, -fX, -f=X."""
    for argument, following in pairwise([*before_dashes(arguments), ""]):
        if argument in (short, long):
            yield following
        elif argument.startswith(f"{long}="):
            yield argument.removeprefix(f"{long}=")
        elif short is not None and argument.startswith(short):
            yield argument.removeprefix(short).removeprefix("=")
