"""What a request requires of an answer: which tools it may call and which it must, and the checks that its texts must pass."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from antiphon.core.checks.work import CheckWork
from antiphon.core.toolbox.tools import Native


class Check(Protocol):
    """A check of one text: the arguments of a call, or an answer. The check itself is slow work, done elsewhere."""

    @property
    def buffered(self) -> bool:
        """Nothing is emitted before the text is whole and was checked, so that it can be repaired or asked for again.
        Otherwise it is emitted as it comes, and checked at its end."""

    @property
    def binding(self) -> bool:
        """A text that fails is an error. Otherwise it is emitted all the same."""

    def work(self, text: str) -> CheckWork: ...


class Tools(NamedTuple):
    """What is known of the offered tools, by the names that the engine sees."""

    native_of: Callable[[str], Native]
    check_of: Callable[[str], Check | None]
    # The arguments of the client's tool, by those of an easy function. None: the function is not one.
    native_arguments: Callable[[str, str], str | None] = lambda name, arguments: None
    # The name by which the history will show a call.
    shown_name: Callable[[str, str], str] = lambda name, arguments: name
    # The functions by which the model can make a call that it made by this name.
    offered_as: Callable[[str], Sequence[str]] = lambda name: (name,)
    # The kind of tool that the calls of a tool look like.
    form_of: Callable[[Native], str] = lambda native: native.kind
    # Only the arguments of a call by one of these names show whether it may be made: it is not shown before they are whole.
    judged_whole: Collection[str] = ()
    # There is such a tool. Where the gateway runs none, a call of an unknown one is the client's to judge.
    is_known: Callable[[str], bool] = lambda name: True


PLAIN_FUNCTIONS = Tools(lambda name: Native("function", name), lambda name: None)


class Requirements(Struct, frozen=True):
    tools: Tools = PLAIN_FUNCTIONS
    # The check of an answer in words, where it has to be JSON.
    answer: Check | None = None
    # One of the tools must be called; only these may be.
    must_call: bool = False
    only: frozenset[str] | None = None
    # The own names of tools that are offered as some of these: a call by its tool's own name is understood.
    own_names: frozenset[str] = frozenset()
    # Those that may not be called now because the model is in a loop, and why.
    withheld: Mapping[str, str] = {}
    # Calls are dropped, with a notice: all of them, or all but one of an answer unless calls may be parallel.
    may_call: bool = True
    parallel: bool = True
    # The gateway runs some of the tools. A call that it cannot run is answered, and the model goes on.
    hosted: bool = False
    # How many calls it runs in the whole response; None: any number.
    most_runs: int | None = None
    # The functions that the model may call.
    offered: tuple[str, ...] = ()

    def reason_against(self, name: str, arguments: str) -> str | None:
        """Why this call may not be made now. Another name for a call that is withheld does not make it another call."""
        return self.withheld.get(name) or self.withheld.get(self.tools.shown_name(name, arguments))

    def offered_as(self, name: str, arguments: str) -> list[str]:
        """The functions by which a call that was made by this name may be made now; none if it may not be made."""
        if not self.allows(name) or self.reason_against(name, arguments) is not None:
            return []
        return [
            each for each in self.tools.offered_as(name) if each not in self.withheld and (not self.only or each in self.only)
        ]

    def allows(self, name: str) -> bool:
        return self.only is None or name in self.only or name in self.own_names


NO_REQUIREMENTS = Requirements()
