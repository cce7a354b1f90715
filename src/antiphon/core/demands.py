"""What an answer owes: which tools it may call and which it must, and the checks that its texts have to pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from antiphon.core.tools import Native


class Check(Protocol):
    """A text is a call's arguments, or an answer."""

    # Nothing is told before it is whole, so that it can be mended, or asked for again. Otherwise it is told as it comes.
    held: bool
    # What stays wrong is an error. Otherwise it is told all the same.
    binding: bool

    def mended(self, text: str) -> str:
        """The text, or one that passes and says the same."""

    def complaint(self, text: str) -> str | None:
        """What is wrong with it; None if nothing is."""


class Tools(NamedTuple):
    """What is to be known of the tools that were offered, by the names that the engine knows them by."""

    native_of: Callable[[str], Native]
    check_of: Callable[[str], Check | None]


PLAIN_FUNCTIONS = Tools(lambda name: Native("function", name), lambda name: None)


@dataclass(frozen=True, slots=True)
class Demands:
    tools: Tools = PLAIN_FUNCTIONS
    # The check of an answer in words, where it has to be JSON.
    answer: Check | None = None
    # A call of one of these has to be made, or no other may be made.
    must_call: bool = False
    only: frozenset[str] | None = None
    # Calls beyond these are left out.
    most_calls: int | None = None


NO_DEMANDS = Demands()
