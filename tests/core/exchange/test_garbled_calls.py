"""Texts that were meant to be calls and are none, and texts that only look like them."""

import pytest

from antiphon.core.exchange.answer_lessons import LONGEST_READ, is_garbled, messages_to_results
from antiphon.core.toolbox.prompt_texts import BAD_ANSWER, BAD_CALL
from antiphon.wire.chat import ChatMessage

LISTING = "Process exited with code 0\nOutput:\ntotal 8\n-rw-r--r-- 1 root root 60 Nov 16 01:30 letter.txt\n"
RESULTS = ["ok", LISTING]

GARBLED = {
    "a name that is no tool": '{"name": "create_file", "arguments": {"path": "a.txt"}}',
    "in a block": '```json\n{\n  "name": "create_file",\n  "arguments": {"path": "a.txt"}\n}\n```',
    "in a block after some words": 'I will make the file.\n\n```json\n{"name": "create_file", "arguments": {}}\n```\nDone.',
    "in the second block": '```sh\nls\n```\n```\n{"name": "create_file", "arguments": {}}\n```',
    "in a block that is never closed": '```json\n{"name": "create_file", "arguments": {"path": "a.txt"}}',
    "a function and its parameters": '{"function": "create_file", "parameters": {"path": "a.txt"}}',
    "a tool and its arguments": '{"tool": "create_file", "args": {"path": "a.txt"}}',
    "an action": '{"action": "create_file", "action_input": {"path": "a.txt"}}',
    "as in Chat Completions": '{"type": "function", "function": {"name": "create_file", "arguments": {}}}',
    "in a list": '[{"name": "create_file", "arguments": {}}]',
    "JSON that is not closed": '{"name": "shell", "arguments": {"command": "ls"',
    "JSON with quotes that are not escaped": '```json\n{"name": "shell", "arguments": {"command": "echo "hi""}}\n```',
    "Python in place of JSON": "{'name': 'shell', 'arguments': {'command': 'ls'}}",
    "words after it": '{"name": "shell", "arguments": {"command": "ls"}}\nThis lists the files.',
    "a marker and broken JSON": 'Let me look.\n<tool_call>\n{"name": "shell", "arguments": {"command": "ls}}\n</tool_call>',
    "the result of a call": LISTING,
    "the result of a call, and more": f"{LISTING}\nThe file is there.",
    "a result that the model has invented": "<tool_response>\nok\n</tool_response>",
    "our words about a call": BAD_CALL.format(complaint="x is missing"),
    "our words about an answer": BAD_ANSWER.format(complaint="x is missing"),
}
ANSWERS = {
    "nothing": "",
    "prose": "The file is there.",
    "JSON with a name": '{"name": "Ana", "age": 30}',
    "JSON with a name and arguments that are none": '{"name": "sum", "arguments": 2}',
    "a manifest": '```json\n{"name": "site", "version": "1.0.0", "scripts": {"test": "jest"}}\n```',
    "the definition of a tool": (
        '{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}'
    ),
    "a list of people": '[{"name": "Ana"}, {"name": "Bob"}]',
    "broken JSON that is no call": '{"name": "Ana", "age": ',
    "a program": '```python\ncall = {"name": "shell", "arguments": {}}\nprint(call)\n```',
    "a call within a sentence": 'Write {"name": "shell", "arguments": {}} into the file.',
    "a short result": "ok",
    "a result in a sentence": f"The output was:\n{LISTING}",
    "a number": "12",
}


@pytest.mark.parametrize("name", GARBLED)
def test_what_was_meant_to_be_a_call_is_recognized(name: str) -> None:
    assert is_garbled(GARBLED[name], RESULTS)
    assert is_garbled(f"\n {GARBLED[name]} \n", RESULTS)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_an_answer(name: str) -> None:
    assert not is_garbled(ANSWERS[name], RESULTS)


def test_only_the_beginning_of_an_answer_is_read() -> None:
    call = '\n```json\n{"name": "create_file", "arguments": {}}\n```'
    assert not is_garbled("word " * LONGEST_READ + call, [])
    assert is_garbled('{"name": "create_file", "arguments": {"text": "' + "word " * LONGEST_READ, [])


@pytest.mark.parametrize("beginning", ["[", "{", "```\n{", "<tool_call>", '{"name": "', '<tool_call>{"name": "x", '])
def test_nothing_but_beginnings_is_no_call(beginning: str) -> None:
    assert not is_garbled(beginning * 50_000, [f"x{beginning * 50_000}"] * 100)


def test_results_are_read_from_their_messages_and_from_the_words_that_stand_for_them() -> None:
    messages = [
        ChatMessage("user", "Hi"),
        ChatMessage("tool", "one", tool_call_id="1"),
        ChatMessage("user", "<tool_response>\ntwo\n</tool_response>"),
        ChatMessage("user", [{"type": "text", "text": "<tool_response>"}]),
    ]
    assert [result.strip() for result in messages_to_results(messages)] == ["one", "two"]
