"""Easy functions, which a small model is offered in place of a client's tool, or of a part of it.

Every tool of a client is a function to the engine already. An easy function translates between its own arguments and those of
that function, so it need not know what the client's calls look like.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.errors import UNREADABLE

Members = dict[str, Any]

PATH = {"type": "string", "description": "The path of the file."}
# A path with a line break in it is none.
ONE_LINE = {"type": "string", "pattern": r"^\s*\S([^\r\n]*\S)?\s*$"}


class EasyFunction(Struct, frozen=True):
    name: str
    # In words that a small model follows, and without an example: it would copy that.
    description: str
    parameters: Members
    # What its calls must follow. It is wider than the parameters: a small model writes a text as a list of lines.
    accepts: Members
    # Its arguments → those of the client's tool, and back. None: they cannot be expressed.
    to_tool: Callable[[Members], Members | None]
    from_tool: Callable[[Members], Members | None]
    # Arguments of the client's tool that the model need not think of.
    filled: Mapping[str, Any] = field(default_factory=dict)
    # Arguments of the client's tool that carry this text, for a tool that takes text; and the member that it is in.
    carrier: Mapping[str, str] = field(default_factory=dict)
    carried_in: str = ""
    # It is of use only while a command of an earlier call is still running.
    needs_running: bool = False

    def tool_arguments(self, written: str) -> str:
        """The arguments of the client's tool. A call that cannot be translated is passed on as it was written: the client's
        tool reports the error."""
        members = _object(written)
        translated = self.to_tool(members) if members is not None else None
        if translated is not None:
            return _encode({**self.filled, **translated})
        return _encode({**self.carrier, self.carried_in: f"{self.name}({written})"}) if self.carried_in else written

    def easy_arguments(self, arguments: str) -> str | None:
        """The arguments of this function, by those of the client's tool. None: it does not express such a call."""
        members = _object(arguments)
        if members is None:
            return None
        if (written := self._carried(members)) is not None:
            return written
        rest = {name: value for name, value in members.items() if name not in self.filled or value != self.filled[name]}
        easy = self.from_tool(rest)
        return None if easy is None else _encode(easy)

    def _carried(self, members: Members) -> str | None:
        """What was written in a call that could not be translated."""
        text = members.get(self.carried_in)
        opening = f"{self.name}("
        if not isinstance(text, str) or not text.startswith(opening) or not text.endswith(")"):
            return None
        return text[len(opening) : -1]


class EasyFunctions(Struct):
    """The easy functions that replace tools of a request."""

    functions: dict[str, EasyFunction] = field(default_factory=dict)
    # Their names, by the tool that they replace.
    names: dict[ToolIdentity, tuple[str, ...]] = field(default_factory=dict)

    def add(self, identity: ToolIdentity, functions: Sequence[EasyFunction]) -> None:
        self.functions.update((each.name, each) for each in functions)
        self.names[identity] = tuple(each.name for each in functions)

    def express(self, identity: ToolIdentity, arguments: str) -> tuple[str, str] | None:
        """A call of the tool as one of an easy function, by its name and arguments. None: no function expresses it."""
        for name in self.names.get(identity, ()):
            if (easy := self.functions[name].easy_arguments(arguments)) is not None:
                return name, easy
        return None


def _object(text: str) -> Members | None:
    try:
        value = msgspec.json.decode(text)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def _encode(members: Members) -> str:
    return msgspec.json.encode(members).decode()


def to_path(value: Any) -> str | None:
    """Codex removes white space around it. A line break in it would be a line of the patch, or of a command."""
    path = value.strip() if isinstance(value, str) else ""
    return path if path and "\n" not in path and "\r" not in path else None
