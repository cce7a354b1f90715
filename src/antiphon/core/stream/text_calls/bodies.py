"""What is between the markers of a call: JSON, a name and its arguments, or a call as in a program.

A body begins where its `head` matches. `read()` then takes everything up to the end of the body, and returns its calls.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct, field

from antiphon.core.stream.text_calls.nearly_json import Repairs
from antiphon.core.stream.text_calls.shapes import Call, ToolNames, is_object, leading_calls, marked_arguments, marked_calls
from antiphon.core.stream.text_calls.source import LONGEST_END, NotACall, Reading, Source, required
from antiphon.core.stream.text_calls.values import GEMMA, PYTHON, members, parameter_to_json, string_to_json
from antiphon.patterns import Pattern

if TYPE_CHECKING:
    import regex

# Names and keys are short, and so is the white space between the parts of a call: no head is long.
SPACE = r"\s{0,99}"
NAME = r"(?P<name>[\w.-]{1,128})"
_NAMED = Pattern(rf'(?:\[{SPACE}){{0,2}}\{{{SPACE}"(?:name|function|tool_name)"{SPACE}:{SPACE}"(?P<name>[^"\\]{{0,128}})"')
# Llama calls a tool by this method.
_METHOD = "call"
_WORD = re.compile(r"[\w.-]+")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
# What a parameter says of its own type, where it is not the name of one.
_IS_STRING = {"true": frozenset({"string"}), "false": None}


class Body(Protocol):
    @property
    def head(self) -> Pattern: ...

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", stop: Pattern | None) -> Reading[list[Call]]:
        """`stop`: what ends the block around it, and is not read. None: it ends with the last bracket."""


class JsonCalls(Struct, frozen=True):
    """Objects with the name and the arguments of a call, one after another or in lists."""

    head: Pattern = field(default=Pattern(rf"(?=\{{|\[{SPACE}[\[{{])"))

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", stop: Pattern | None) -> Reading[list[Call]]:
        yield from _reject_unknown_tool(source, tools)
        start = source.at
        if stop is None:
            return required(marked_calls((yield from source.json_value()), tools))
        text = yield from source.json_until(stop)
        if text is not None:
            return required(marked_calls(text, tools))
        calls, source.at = leading_calls(source.text, tools, start)
        return required(calls or None)


def _reject_unknown_tool(source: Source, tools: ToolNames) -> Reading[None]:
    """Most models write the name first: a tool that is not offered need not be read to its end."""
    while (found := _NAMED.match(source.text, source.at, partial=True)) is not None and not source.ended:
        if not found.partial:
            if tools.find(found["name"]) is None:
                raise NotACall
            return
        yield


class NamedCall(Struct, frozen=True):
    """A name, and then its arguments: as JSON, or as parameters in tags."""

    head: Pattern
    # Ends the call. None: what ends the block around it, or the last bracket of the JSON.
    end: Pattern | None = None
    parameter: Pattern | None = None
    parameter_end: Pattern | None = None
    # Where a value has parts that are not read.
    nested: str | None = None

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", stop: Pattern | None) -> Reading[list[Call]]:
        name = required(tools.find(head["name"]))
        yield from source.white_space()
        is_json = source.text.startswith("{", source.at)
        end = self.end or stop
        arguments = yield from (
            self._json(source, tools.repairs, end) if is_json else self._parameters(source, tools, name, end)
        )
        return [Call(name, arguments)]

    def _json(self, source: Source, repairs: Repairs, end: Pattern | None) -> Reading[str]:
        text = None if end is None else (yield from source.json_until(end))
        if text is None:
            value = yield from source.json_value()
            # What was cut off is not repaired.
            return required(marked_arguments(value, repairs) if end is None or is_object(value) else None)
        if self.end is not None:
            yield from source.token(self.end)
        return required(marked_arguments(text, repairs))

    def _parameters(self, source: Source, tools: ToolNames, name: str, end: Pattern | None) -> Reading[str]:
        if self.parameter is None or self.parameter_end is None or end is None:
            raise NotACall
        values: dict[str, Any] = {}
        while True:
            yield from source.white_space()
            at = source.at
            index, found = yield from source.first_of([end, self.parameter])
            if index == 0:
                source.at = source.at if self.end is not None else at
                return msgspec.json.encode(values).decode()
            key = found["key"].strip()
            written = yield from self._value(source, [end, self.parameter])
            values[key] = msgspec.Raw(_to_json(written, found, tools.types(name, key), tools.repairs))

    def _value(self, source: Source, following: list[Pattern]) -> Reading[str]:
        """Up to an end tag after which the next parameter begins or the call ends: the value may contain such tags."""
        assert self.parameter_end is not None
        start = searched = source.at
        while True:
            found = self.parameter_end.search(source.text, searched)
            if found is None:
                searched = max(start, searched, len(source.text) - LONGEST_END)
                yield from source.more()
                continue
            source.at = source.reached = searched = found.end()
            try:
                yield from source.white_space()
                yield from source.first_of(following)
            except NotACall:
                continue
            source.at = found.end()
            value = source.text[start : found.start()]
            if self.nested is not None and self.nested in value:
                raise NotACall
            return value


def reject_other_word(source: Source, tools: ToolNames, at: int, others: Sequence[str] = ()) -> Reading[None]:
    """Where a word must be the name of a tool, or one of the others, prose is released at its first letter."""
    while (word := _WORD.match(source.text, at)) is not None and word.end() == len(source.text):
        name, _, method = word[0].rpartition(".")
        may_be_method = _METHOD.startswith(method) and tools.find(name) is not None
        if not (may_be_method or tools.may_begin(word[0]) or any(other.startswith(word[0]) for other in others)):
            raise NotACall
        yield from source.more()


def _to_json(written: str, found: "regex.Match[str]", types: frozenset[str] | None, repairs: Repairs) -> bytes:
    if (data := _CDATA.fullmatch(written)) is not None:
        return string_to_json(data[1])
    stated = found.groupdict().get("type")
    if stated is not None:
        types = _IS_STRING.get(stated, frozenset({stated}))
    return parameter_to_json(written, types, repairs)


class PythonCalls(Struct, frozen=True):
    """Calls with literals as keyword arguments: `[f(x=1), g()]`, `f(x=1)`, `f.call(x=1)`."""

    head: Pattern = field(default=Pattern(rf"(?P<list>\[{SPACE})?(?=[A-Za-z_][\w.-]{{0,127}}\()"))

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", stop: Pattern | None) -> Reading[list[Call]]:
        calls = [(yield from python_call(source, tools))]
        in_list = head["list"] is not None
        while True:
            at = source.at
            try:
                yield from source.token(_IN_LIST if in_list else _IN_LINES)
            except NotACall:
                source.at = at
                break
            calls.append((yield from python_call(source, tools)))
        if in_list:
            yield from source.token(_LIST_END)
        return calls


_IN_LIST = Pattern(rf"{SPACE},{SPACE}(?=[^\s\]])")
_IN_LINES = Pattern(r"\s{0,99}[,;\n]\s{0,99}(?=[A-Za-z_][\w.-]{0,127}\()")
_LIST_END = Pattern(rf"{SPACE}(?:,{SPACE})?\]")
_PYTHON_NAME = Pattern(rf"{NAME}\(")
_KEYWORD = Pattern(rf"(?P<key>[A-Za-z_][\w-]{{0,127}}){SPACE}={SPACE}")


def python_call(source: Source, tools: ToolNames) -> Reading[Call]:
    written = (yield from source.token(_PYTHON_NAME))["name"]
    name = required(tools.find(written) or tools.find(written.removesuffix(f".{_METHOD}")))
    values = yield from members(source, PYTHON, _KEYWORD, ")")
    return Call(name, msgspec.json.encode(values).decode())


class GemmaCall(Struct, frozen=True):
    """`call:NAME{KEY:VALUE,…}`, with strings between marks of their own."""

    head: Pattern = field(default=Pattern(rf"call:{NAME}\{{"))

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", stop: Pattern | None) -> Reading[list[Call]]:
        name = required(tools.find(head["name"]))
        values = yield from members(source, GEMMA, GEMMA.key, "}")
        return [Call(name, msgspec.json.encode(values).decode())]
