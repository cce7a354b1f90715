"""What is between the markers of a call: JSON, a name and its arguments, or a call as in a program; and the bodies of single
models, which the rows of `FORMS` name.

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
from antiphon.patterns import Pattern, late_pattern

if TYPE_CHECKING:
    import regex

# Names and keys are short, and so is the white space between the parts of a call: no head is long.
SPACE = r"\s{0,99}"
NAME = r"(?P<name>[\w.-]{1,128})"
_NAMED = Pattern(rf'(?:\[{SPACE}){{0,2}}\{{{SPACE}"(?:name|function|tool_name)"{SPACE}:{SPACE}"(?P<name>[^"\\]{{0,128}})"')
# Llama calls a tool by this method.
_METHOD = "call"
_WORD = late_pattern(r"[\w.-]+")
_CDATA = late_pattern(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
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


def _named(
    head: str,
    end: str | None = None,
    parameter: str | None = None,
    parameter_end: str | None = None,
    nested: str | None = None,
) -> NamedCall:
    return NamedCall(
        Pattern(head),
        None if end is None else Pattern(end),
        None if parameter is None else Pattern(parameter),
        None if parameter_end is None else Pattern(parameter_end),
        nested,
    )


_KEY = r"(?P<key>[^\"'<>\n]{1,256}?)"
# The prefixes and suffixes that some models add to the names of tags.
_PREFIX = r"(?:[\w-]{1,16}:|｜DSML｜)?"
_SUFFIX = r"(?::\w{1,16})?"
# DeepSeek's marks, and what remains of them in other tokenizers.
_BAR, _GAP = "[｜|]", "[▁_]"
_CALL_BEGIN, _SEP, _CALL_END = (f"<{_BAR}tool{_GAP}{word}{_BAR}>" for word in (f"call{_GAP}begin", "sep", f"call{_GAP}end"))

JSON = JsonCalls()
PYTHON_CALLS = PythonCalls()
GEMMA_CALL = GemmaCall()
FUNCTION_TAGS = _named(
    rf"<function=(?P<name>[^>\s]{{1,128}}){SPACE}>",
    "</function>",
    rf"<parameter=(?P<key>[^>]{{1,256}}?){SPACE}>",
    "</parameter>",
)
PARAM_TAGS = _named(
    rf"<function{SPACE}name=[\"']{NAME}[\"']{SPACE}>",
    "</function>",
    rf"<param(?:eter)?\s{{1,99}}name=[\"']{_KEY}[\"']{SPACE}>",
    "</param(?:eter)?>",
)
INVOKE_TAGS = _named(
    rf"<{_PREFIX}invoke\s{{1,99}}name=[\"']{NAME}[\"']{SPACE}>",
    rf"</{_PREFIX}invoke>",
    rf"<{_PREFIX}parameter\s{{1,99}}name=[\"']{_KEY}[\"'](?:\s{{1,99}}string=[\"'](?P<type>true|false)[\"'])?{SPACE}>",
    rf"</{_PREFIX}parameter>",
)
KEYS_AND_VALUES = _named(
    rf"{NAME}{SPACE}(?:<tool_sep{_SUFFIX}>{SPACE})?(?=<arg_key|</tool_call|<ifm\||</ifm\|)",
    None,
    rf"<(?:ifm\|)?arg_key{_SUFFIX}>{_KEY}</(?:ifm\|)?arg_key{_SUFFIX}>{SPACE}"
    rf"(?:<ifm\|arg_type>(?P<type>\w{{1,16}})</ifm\|arg_type>{SPACE})?<(?:ifm\|)?arg_value{_SUFFIX}>",
    rf"</(?:ifm\|)?arg_value{_SUFFIX}>",
)
NAME_AND_JSON = _named(rf"{NAME}{SPACE}(?=\{{)")
HY3_CALL = _named(
    rf"<tool_call{_SUFFIX}>{SPACE}{NAME}{SPACE}<tool_sep{_SUFFIX}>",
    f"</tool_call{_SUFFIX}>",
    rf"<arg_key{_SUFFIX}>{_KEY}</arg_key{_SUFFIX}>{SPACE}<arg_value{_SUFFIX}>",
    rf"</arg_value{_SUFFIX}>",
)
MISTRAL_CALL = _named(rf"{NAME}{SPACE}(?:\[CALL_ID\]{SPACE}[\w-]{{0,128}}{SPACE})?(?:\[ARGS\])?{SPACE}(?=\{{)")
MISTRAL_NEXT = _named(rf"{NAME}{SPACE}(?:\[CALL_ID\]{SPACE}[\w-]{{0,128}}{SPACE})?\[ARGS\]{SPACE}(?=\{{)")
LLAMA_NEXT = JsonCalls(Pattern(rf";{SPACE}(?=\{{)"))
KIMI_CALL = _named(
    rf"<\|tool_call_begin\|>{SPACE}{NAME}(?::\d{{1,9}})?{SPACE}<\|tool_call_argument_begin\|>{SPACE}(?=\{{)",
    r"<\|tool_call_end\|>",
)
KIMI_3_CALL = _named(
    rf"<\|open\|>call tool=\"{NAME}\"[^<>]{{0,64}}<\|sep\|>{SPACE}(?:<\|open\|>json[^<>]{{0,64}}<\|sep\|>)?",
    r"(?:<\|close\|>json<\|sep\|>)?<\|close\|>call<\|sep\|>",
    rf"<\|open\|>argument key=\"{_KEY}\"(?: type=\"(?P<type>\w{{1,16}})\")?[^<>]{{0,64}}<\|sep\|>",
    r"<\|close\|>argument<\|sep\|>",
)
DEEPSEEK_CALL = _named(rf"{_CALL_BEGIN}{SPACE}{NAME}{SPACE}{_SEP}{SPACE}(?=\{{)", _CALL_END)
DEEPSEEK_FENCED = _named(
    rf"{_CALL_BEGIN}{SPACE}function{SPACE}{_SEP}{SPACE}{NAME}{SPACE}```(?:json)?{SPACE}(?=\{{)",
    rf"(?:```\s{{0,9}})?{_CALL_END}",
)
STEP_CALL = _named(
    rf"{_CALL_BEGIN}{SPACE}function{SPACE}{_SEP}{SPACE}<steptml:invoke name=\"{NAME}\">",
    rf"</steptml:invoke>\s{{0,9}}{_CALL_END}",
    rf"<steptml:parameter name=\"{_KEY}\">",
    "</steptml:parameter>",
)
SOLAR_CALL = _named(
    rf"<\|tool_call:begin\|>[\w-]{{0,128}}<\|tool_call:name\|>{NAME}<\|tool_call:args\|>{SPACE}(?=\{{)", r"<\|tool_call:end\|>"
)
SOLAR_2_CALL = _named(
    rf"<\|tool_call:start\|>{NAME}{SPACE}(?=<\|tool)",
    r"<\|tool_call:end\|>",
    rf"<\|tool_arg:start\|>{_KEY}<\|tool_arg:value\|>",
    r"<\|tool_arg:end\|>",
)
_M3_MARK = "]<]minimax[>["
_M3 = re.escape(_M3_MARK)
MINIMAX_3_CALL = _named(
    rf"{_M3}<invoke name=\"{NAME}\">",
    rf"{_M3}</invoke>",
    rf"{_M3}<(?P<key>[\w.-]{{1,128}})>",
    rf"{_M3}</[\w.-]{{1,128}}>",
    _M3_MARK,
)
QWEN_2_CALL = _named(rf"✿FUNCTION✿:{SPACE}{NAME}{SPACE}✿ARGS✿:{SPACE}(?=\{{)")
FUNCTIONARY_CALL = _named(rf">>>{NAME}\r?\n{SPACE}(?=\{{)")

# Any of them may be between a marker and its end.
ANY_BODY = (JSON, FUNCTION_TAGS, PARAM_TAGS, INVOKE_TAGS, KEYS_AND_VALUES, NAME_AND_JSON, PYTHON_CALLS)
