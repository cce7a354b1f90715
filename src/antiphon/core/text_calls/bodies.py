"""What is between the markers of a call: JSON, a name and its arguments, or a call as in a program.

A body begins where its `head` matches. `read()` then takes everything up to the end of the body, and returns its calls.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import regex

from antiphon.core.text_calls.literals import GEMMA, PYTHON, members
from antiphon.core.text_calls.parameters import parameter_to_json, string_to_json
from antiphon.core.text_calls.shapes import Call, ToolNames, is_object, leading_calls, marked_arguments, marked_calls
from antiphon.core.text_calls.source import NotACall, Reading, Source

# Names and keys are short, and so is the white space between the parts of a call: no head is long.
SPACE = r"\s{0,99}"
NAME = r"(?P<name>[\w.-]{1,128})"
_NAMED = regex.compile(
    rf'(?:\[{SPACE}){{0,2}}\{{{SPACE}"(?:name|function|tool_name)"{SPACE}:{SPACE}"(?P<name>[^"\\]{{0,128}})"'
)
# Llama calls a tool by this method.
_METHOD = "call"
_WORD = re.compile(r"[\w.-]+")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
# What a parameter says of its own type, where it is not the name of one.
_IS_STRING = {"true": frozenset({"string"}), "false": None}


class Ends:
    """The texts that end something. None: it ends with the last bracket of its JSON."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.search = re.compile("|".join(map(re.escape, texts))) if texts else None
        self.match = regex.compile("|".join(map(regex.escape, texts))) if texts else None
        self.longest = max(map(len, texts), default=0)


class Body(Protocol):
    @property
    def head(self) -> "regex.Pattern[str]": ...

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", ends: Ends) -> Reading[list[Call]]:
        """`ends`: what ends the block around it. It is not read."""


@dataclass(frozen=True)
class JsonCalls:
    """Objects with the name and the arguments of a call, one after another or in lists."""

    head: "regex.Pattern[str]" = field(default=regex.compile(rf"(?=\{{|\[{SPACE}[\[{{])"))

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", ends: Ends) -> Reading[list[Call]]:
        yield from _reject_unknown_tool(source, tools)
        start = source.at
        if ends.search is None:
            calls = marked_calls((yield from source.json_value()), tools)
        else:
            text = yield from source.json_until(ends.search, ends.longest)
            if text is None:
                calls, source.at = leading_calls(source.text, tools, start)
            else:
                calls = marked_calls(text, tools)
        if not calls:
            raise NotACall
        return calls


def _reject_unknown_tool(source: Source, tools: ToolNames) -> Reading[None]:
    """Most models write the name first: a tool that is not offered need not be read to its end."""
    while (found := _NAMED.match(source.text, source.at, partial=True)) is not None and not source.ended:
        if not found.partial:
            if tools.find(found["name"]) is None:
                raise NotACall
            return
        yield


@dataclass(frozen=True)
class NamedCall:
    """A name, and then its arguments: as JSON, or as parameters in tags."""

    head: "regex.Pattern[str]"
    # Ends the call. None: what ends the block around it, or the last bracket of the JSON.
    end: "regex.Pattern[str] | None" = None
    parameter: "regex.Pattern[str] | None" = None
    parameter_end: re.Pattern[str] | None = None
    # Where a value has parts that are not read.
    nested: str | None = None

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", ends: Ends) -> Reading[list[Call]]:
        name = tools.find(head["name"])
        if name is None:
            raise NotACall
        yield from source.white_space()
        if source.text.startswith("{", source.at):
            return [Call(name, (yield from self._json(source, ends)))]
        return [Call(name, (yield from self._parameters(source, tools, name, ends)))]

    def _json(self, source: Source, ends: Ends) -> Reading[str]:
        end = self.end or ends.match
        text = None if end is None else (yield from source.json_until(_searchable(end), _LONGEST_END))
        if text is None:
            arguments = yield from source.json_value()
            if not is_object(arguments) and end is not None:
                raise NotACall
            return marked_arguments(arguments) or _not_a_call()
        if self.end is not None:
            yield from source.token(self.end)
        return marked_arguments(text) or _not_a_call()

    def _parameters(self, source: Source, tools: ToolNames, name: str, ends: Ends) -> Reading[str]:
        end = self.end or ends.match
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
            written = yield from self._value(source, [end, self.parameter])
            values[found["key"].strip()] = msgspec.Raw(_to_json(written, found, tools.types(name, found["key"].strip())))

    def _value(self, source: Source, following: list["regex.Pattern[str]"]) -> Reading[str]:
        """Up to an end tag after which the next parameter begins or the call ends: the value may contain such tags."""
        assert self.parameter_end is not None
        start = searched = source.at
        while True:
            found = self.parameter_end.search(source.text, searched)
            if found is None:
                searched = max(start, searched, len(source.text) - _LONGEST_END)
                yield from source.more()
                continue
            source.at = searched = found.end()
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


# No end of a call or parameter is longer.
_LONGEST_END = 64


def reject_other_word(source: Source, tools: ToolNames, at: int, others: Sequence[str] = ()) -> Reading[None]:
    """Where a word must be the name of a tool, or one of the others, prose is released at its first letter."""
    while (word := _WORD.match(source.text, at)) is not None and word.end() == len(source.text):
        name, _, method = word[0].rpartition(".")
        may_be_method = _METHOD.startswith(method) and tools.find(name) is not None
        if not (may_be_method or tools.may_begin(word[0]) or any(other.startswith(word[0]) for other in others)):
            raise NotACall
        yield from source.more()


def _searchable(pattern: "regex.Pattern[str]") -> re.Pattern[str]:
    return re.compile(pattern.pattern)


def _not_a_call() -> str:
    raise NotACall


def _to_json(written: str, found: "regex.Match[str]", types: frozenset[str] | None) -> bytes:
    if (data := _CDATA.fullmatch(written)) is not None:
        return string_to_json(data[1])
    stated = found.groupdict().get("type")
    if stated is not None:
        types = _IS_STRING.get(stated, frozenset({stated}))
    return parameter_to_json(written, types)


@dataclass(frozen=True)
class PythonCalls:
    """Calls with literals as keyword arguments: `[f(x=1), g()]`, `f(x=1)`, `f.call(x=1)`."""

    head: "regex.Pattern[str]" = field(default=regex.compile(rf"(?P<list>\[{SPACE})?(?=[A-Za-z_][\w.-]{{0,127}}\()"))

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", ends: Ends) -> Reading[list[Call]]:
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


_IN_LIST = regex.compile(rf"{SPACE},{SPACE}(?=[^\s\]])")
_IN_LINES = regex.compile(r"\s{0,99}[,;\n]\s{0,99}(?=[A-Za-z_][\w.-]{0,127}\()")
_LIST_END = regex.compile(rf"{SPACE}(?:,{SPACE})?\]")
_PYTHON_NAME = regex.compile(rf"{NAME}\(")
_KEYWORD = regex.compile(rf"(?P<key>[A-Za-z_][\w-]{{0,127}}){SPACE}={SPACE}")


def python_call(source: Source, tools: ToolNames) -> Reading[Call]:
    written = (yield from source.token(_PYTHON_NAME))["name"]
    name = tools.find(written) or tools.find(written.removesuffix(f".{_METHOD}"))
    if name is None:
        raise NotACall
    values = yield from members(source, PYTHON, _KEYWORD, ")")
    return Call(name, msgspec.json.encode(values).decode())


@dataclass(frozen=True)
class GemmaCall:
    """`call:NAME{KEY:VALUE,…}`, with strings between marks of their own."""

    head: "regex.Pattern[str]" = field(default=regex.compile(rf"call:{NAME}\{{"))

    def read(self, source: Source, tools: ToolNames, head: "regex.Match[str]", ends: Ends) -> Reading[list[Call]]:
        name = tools.find(head["name"])
        if name is None:
            raise NotACall
        values = yield from members(source, GEMMA, GEMMA.key, "}")
        return [Call(name, msgspec.json.encode(values).decode())]
