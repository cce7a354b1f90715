"""Tools, calls and results as text in the messages, for chat templates that do not show tools to the model."""

from collections.abc import Sequence

import msgspec

from antiphon.wire.chat import ChatTool

INTRODUCTION = """\
# Tools

You can call functions. Each line between <tools> and </tools> describes one, its parameters as a JSON schema:
<tools>
{tools}
</tools>
To call a function, write an object with its name and its arguments between <tool_call> and </tool_call>, and nothing after it:
<tool_call>
{{"name": "the name of the function", "arguments": {{"parameter": "value"}}}}
</tool_call>
Its result is then told to you between <tool_response> and </tool_response>."""

RESULT_BEGINS, RESULT_ENDS = "<tool_response>", "</tool_response>"

MUST = "Answer now by calling {names}, and with nothing else."


def tools_to_words(tools: Sequence[ChatTool]) -> str:
    return INTRODUCTION.format(tools="\n".join(msgspec.json.encode(tool.function).decode() for tool in tools))


def must_call(names: Sequence[str]) -> str:
    return MUST.format(names=one_of(names))


def one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of these functions: {', '.join(names)}"


def call_to_words(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": {msgspec.json.encode(name).decode()}, "arguments": {arguments}}}\n</tool_call>'


def result_to_words(output: str) -> str:
    return f"{RESULT_BEGINS}\n{output}\n{RESULT_ENDS}"
