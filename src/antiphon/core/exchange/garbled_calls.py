"""Whether an answer without a call was meant to be a call. After such an answer, the model is constrained to the
form of calls.

It may be JSON with the shape of a call that names no tool or does not parse, the result of an earlier call, or one of our own
sentences about calls. All of it is seen in one pass over a bounded beginning of the answer.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from antiphon.core.prompt.turns import NO_OUTPUT
from antiphon.core.toolbox.own_words import BAD_ANSWER, BAD_CALL
from antiphon.core.toolbox.tool_words import MUST, RESULT_BEGINS, RESULT_ENDS
from antiphon.wire import UNREADABLE
from antiphon.wire.chat import ChatMessage

# What follows is not looked at. An answer that was meant to be a call begins early.
LONGEST_READ = 32 * 1024
# A result with fewer characters may well be the answer.
SHORTEST_RESULT = 64
# The members that models give a call: its name, and its arguments.
NAMES = ("name", "function", "function_name", "tool", "tool_name", "action")
ARGUMENTS = ("arguments", "parameters", "args", "params", "tool_input", "action_input")
# Not the arguments of a call, but the schema that describes them: the answer is the definition of a tool.
SCHEMA = frozenset({"type", "properties"})
# What only we write, up to where it depends on the call.
OUR_WORDS = tuple(words.partition("{")[0] for words in (BAD_CALL, BAD_ANSWER, MUST, NO_OUTPUT, RESULT_BEGINS))
# Where a call may begin: the answer itself, a fenced block, a marker.
_BEGINNING = re.compile(
    r"(?:\A|^[ \t]{0,9}`{3,9}[ \t]{0,9}[\w+-]{0,32}[ \t]{0,9}\r?\n|<tool_call>)\s{0,99}(?=[\[{])", re.MULTILINE
)
# What ends it, unless it is the answer itself.
_END = re.compile(r"^[ \t]{0,9}`{3,9}|</tool_call>", re.MULTILINE)
_QUOTE = "[\"']"
# The beginning of a call that is not JSON any more.
_HEAD = re.compile(
    rf"(?:\[\s{{0,99}})?\{{\s{{0,99}}{_QUOTE}(?:{'|'.join(NAMES)}){_QUOTE}\s{{0,99}}:\s{{0,99}}{_QUOTE}[\w.-]{{1,128}}{_QUOTE}"
    rf"\s{{0,99}},\s{{0,99}}{_QUOTE}(?:{'|'.join(ARGUMENTS)}){_QUOTE}\s{{0,99}}:"
)


def is_garbled(answer: str, results: Iterable[str]) -> bool:
    """`answer`: the text of an answer without a call, although tools were offered. `results`: those of earlier calls."""
    text = answer[:LONGEST_READ].strip()
    return text.startswith(OUR_WORDS) or _repeats(text, results) or any(map(_is_call, _candidates(text)))


def messages_to_results(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """The results of calls as the model has seen them: in messages of their own, or in words."""
    for message in messages:
        content = message.content
        if isinstance(content, str) and (message.role == "tool" or content.startswith(RESULT_BEGINS)):
            yield content.removeprefix(RESULT_BEGINS).removesuffix(RESULT_ENDS)


def _repeats(text: str, results: Iterable[str]) -> bool:
    if len(text) < SHORTEST_RESULT:
        # It is too short to begin with any of them.
        return False
    said = (result.strip() for result in results)
    return any(len(result) >= SHORTEST_RESULT and text.startswith(result[:LONGEST_READ].rstrip()) for result in said)


def _candidates(text: str) -> Iterator[str]:
    """What may be a call, each up to the end of its block. They do not overlap."""
    at = 0
    while (found := _BEGINNING.search(text, at)) is not None:
        end = _END.search(text, found.end())
        at = end.end() if end is not None else len(text)
        yield text[found.end() : end.start() if end is not None else at]


def _is_call(written: str) -> bool:
    try:
        value = msgspec.json.decode(written)
    except UNREADABLE:
        return _HEAD.match(written) is not None
    calls = value if isinstance(value, list) else [value]
    return any(_has_shape(each) for each in calls)


def _has_shape(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    function = value.get("function")
    if isinstance(function, dict):
        # As in Chat Completions.
        return _has_shape(function)
    has_name = any(isinstance(value.get(name), str) and value[name] for name in NAMES)
    return has_name and any(_are_arguments(value.get(name)) for name in ARGUMENTS)


def _are_arguments(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys() >= SCHEMA
