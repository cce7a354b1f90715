"""Calls without a marker. They count only where no other text is beside them, because answers are full of examples."""

from functools import partial
from typing import NamedTuple

from antiphon.core.stream.text_calls.blocks import Candidate, CandidateFactory, Match, marked_block
from antiphon.core.stream.text_calls.bodies import NAME, SPACE, PythonCalls, python_call, reject_other_word
from antiphon.core.stream.text_calls.forms import TAG_ENDS
from antiphon.core.stream.text_calls.shapes import Call, ToolNames, json_to_calls, marked_arguments, marked_calls
from antiphon.core.stream.text_calls.source import NotACall, Reading, Source, required, skip_whitespace
from antiphon.patterns import Pattern, any_of

# What an action begins with.
ACTION = "Action:"
# The short members of a call, up to the beginning of the long one.
_STRING = r'"[^"\\]{0,128}"'
_SHORT = rf'"(?:name|function)"{SPACE}:{SPACE}(?P<name>{_STRING})|"type"{SPACE}:{SPACE}"function"|"id"{SPACE}:{SPACE}{_STRING}'
_LONG = rf'"(?:(?:arguments|parameters)"{SPACE}:{SPACE}[{{"]|function"{SPACE}:{SPACE}\{{)'
_JSON_HEAD = Pattern(rf"(?:\[{SPACE})?\{{{SPACE}(?:(?:{_SHORT}){SPACE},{SPACE}){{0,9}}{_LONG}")
_LIST_HEAD = Pattern(rf"(?=\[{SPACE}(?P<first>\S))")
_FENCE = Pattern(r"(?P<run>`{3,99})[ \t]{0,99}(?P<language>[\w+-]{0,32})[ \t]{0,99}\r?\n")
# The languages of fenced blocks that are never examples.
_FOR_CALLS = frozenset({"tool_code", "tool_call", "tool_calls"})
_STATEMENT = Pattern(r"(?:(?P<print>print)\(|(?!print\())(?=[A-Za-z_][\w.-]{0,127}\()")
_PRINT_END = Pattern(rf"{SPACE}\)")
_ACTION = Pattern(rf"{ACTION}[ \t]{{0,9}}(?:{NAME}[ \t]{{0,9}}\r?\n{SPACE}Action Input:{SPACE}(?=\{{)|\r?\n{SPACE}(?=[`\[{{]))")
_OBSERVATION = Pattern(r"Observation:")
_NAME_LINE = Pattern(rf"{NAME}\r?\n[ \t]{{0,9}}(?=\{{)")
_NEXT_NAME = Pattern(r">>>")
_TAG_END = required(any_of(TAG_ENDS))
_PYTHON = PythonCalls()


class Item(NamedTuple):
    calls: list[Call]
    # It is a call at the beginning of the text, too, whatever follows.
    certain: bool = True


def bare_calls(at_beginning: bool) -> CandidateFactory:
    return partial(Candidate, partial(_read, at_beginning))


def _read(at_beginning: bool, source: Source, tools: ToolNames) -> Reading[Match]:
    """Calls at the beginning of the visible text, or followed by nothing to the end of the answer."""
    calls: list[Call] = []
    while True:
        before = source.at
        yield from source.white_space()
        if source.at == len(source.text):
            return Match(calls, source.at)
        if calls and source.text[source.at] == "<":
            yield from source.token(_TAG_END)
            continue
        if calls and "\n" not in source.text[before : source.at]:
            raise NotACall
        item = yield from _item(source, tools, at_beginning=at_beginning and not calls)
        calls += item.calls
        if at_beginning and item.certain:
            return Match(calls, source.at, Candidate(_tag_end, tools, 0, plain_prefix=0))


def _tag_end(source: Source, tools: ToolNames) -> Reading[Match]:
    """The end of a tag whose beginning the engine has taken out of the text, as a special token. It is dropped."""
    yield from source.token(_TAG_END)
    return Match([], source.at)


def _item(source: Source, tools: ToolNames, *, at_beginning: bool) -> Reading[Item]:
    match source.text[source.at]:
        case "{" | "[":
            return (yield from _value(source, tools))
        case "`":
            return (yield from _fenced(source, tools))
    while ACTION.startswith(written := source.text[source.at : source.at + len(ACTION)]):
        if written == ACTION:
            return (yield from _action(source, tools))
        yield from source.more()
    if not at_beginning:
        raise NotACall
    return (yield from _name_line(source, tools))


def _value(source: Source, tools: ToolNames) -> Reading[Item]:
    if source.text[source.at] == "[" and (yield from source.token(_LIST_HEAD))["first"] != "{":
        yield from reject_other_word(source, tools, skip_whitespace(source.text, source.at + 1))
        head = yield from source.token(_PYTHON.head)
        return Item((yield from _PYTHON.read(source, tools, head, None)), certain=False)
    while (found := _JSON_HEAD.match(source.text, source.at, partial=True)) is not None:
        if not all(tools.find(name[1:-1]) for name in found.captures("name")):
            raise NotACall
        if not found.partial:
            return Item(required(json_to_calls((yield from source.json_value()), tools, strict=True)))
        yield from source.more()
    raise NotACall


def _fenced(source: Source, tools: ToolNames, *, strict: bool = True) -> Reading[Item]:
    """A fenced block that contains only calls. At the end of the text it may be left open."""
    head = yield from source.token(_FENCE)
    fence, for_calls = head["run"], head["language"] in _FOR_CALLS
    calls: list[Call] = []
    certain = True
    while True:
        yield from source.white_space()
        rest = source.text[source.at : source.at + len(fence)]
        if calls and fence.startswith(rest):
            if rest == fence or source.ended:
                source.at += len(rest)
                return Item(calls, certain or for_calls)
            yield from source.more()
            continue
        item = yield from _in_fence(source, tools, strict=strict, for_calls=for_calls)
        calls += item.calls
        certain = certain and item.certain


def _in_fence(source: Source, tools: ToolNames, *, strict: bool, for_calls: bool) -> Reading[Item]:
    block = yield from marked_block(source)
    if block is not None:
        match = yield from block.read(source, tools)
        return Item(match.calls)
    if source.text.startswith(("{", "["), source.at):
        return (yield from _value(source, tools)) if strict else (yield from _marked_value(source, tools))
    if not for_calls:
        raise NotACall
    is_printed = (yield from source.token(_STATEMENT))["print"] is not None
    call = yield from python_call(source, tools)
    if is_printed:
        yield from source.token(_PRINT_END)
    return Item([call])


def _marked_value(source: Source, tools: ToolNames) -> Reading[Item]:
    return Item(required(marked_calls((yield from source.json_value()), tools)), certain=False)


def _action(source: Source, tools: ToolNames) -> Reading[Item]:
    """ReAct's action and its input, or a list of actions. A model that goes on to write the observation has invented it."""
    head = yield from source.token(_ACTION)
    if head["name"] is None:
        is_fenced = source.text.startswith("`", source.at)
        item = yield from (_fenced(source, tools, strict=False) if is_fenced else _marked_value(source, tools))
        calls = item.calls
    else:
        calls = [(yield from _call(source, tools, head["name"]))]
    at = source.at
    yield from source.white_space()
    if source.text.startswith("O", source.at):
        yield from source.token(_OBSERVATION)
        yield from source.white_space()
        if source.at < len(source.text):
            raise NotACall
    else:
        source.at = at
    return Item(calls, certain=False)


def _name_line(source: Source, tools: ToolNames) -> Reading[Item]:
    """A name and, in the next line, its arguments; nothing, or the next name, after it."""
    while (found := _NAME_LINE.match(source.text, source.at, partial=True)) is not None and found.partial:
        if not tools.may_begin(source.text[source.at :].partition("\n")[0].rstrip("\r")):
            raise NotACall
        yield from source.more()
    head = yield from source.token(_NAME_LINE)
    call = yield from _call(source, tools, head["name"])
    at = source.at
    yield from source.white_space()
    if source.at < len(source.text):
        yield from source.token(_NEXT_NAME)
    source.at = at
    return Item([call])


def _call(source: Source, tools: ToolNames, written: str) -> Reading[Call]:
    name = required(tools.find(written))
    return Call(name, required(marked_arguments((yield from source.json_value()), tools.repairs)))
