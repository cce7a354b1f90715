"""What holds of every call of an easy function, and of every history with them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND, PATCH_GRAMMAR, WRITE_STDIN
from support.easy_tools import FUNCTIONS, OTHER, TWO_FILES, USER, Item, called, convert, last_call, output_of, written
from support.engine import call
from support.items import call_output, function_call

from antiphon.core.checks import grammars
from antiphon.core.checks.work import Grammar

# The kind and the name of a tool, and the name of a function.
Row = tuple[str, str, str]

characters = st.characters(exclude_categories=["Cs"])
lines = st.lists(st.text(characters, max_size=12).map(lambda line: line.replace("\n", "").rstrip("\r")), max_size=5)
texts = lines.map(lambda given: "".join(f"{line}\n" for line in given))
paths = st.text(characters, min_size=1, max_size=12).map(lambda path: path.replace("\n", "").replace("\r", "").strip() or "a")
# In a command, one that begins like an option is written in another way.
plain_paths = paths.map(lambda path: f"./{path}" if path.startswith("-") else path)
rests = st.dictionaries(st.sampled_from(["workdir", "tty", "timeout"]), texts | st.integers(0, 9))
normalised = {
    "write_file": st.fixed_dictionaries({"path": paths, "content": texts.map(lambda content: content or "\n")}),
    "edit_file": st.fixed_dictionaries({"path": paths, "old_lines": texts, "new_lines": texts}),
    "delete_file": st.fixed_dictionaries({"path": paths}),
    "shell": st.builds(lambda command, rest: {"command": f"ls {command}", **rest}, texts, rests),
    "read_file": st.fixed_dictionaries({"path": plain_paths}),
    "replace_text": st.fixed_dictionaries({"path": plain_paths, "old_text": texts.filter(bool), "new_text": texts}),
    "move_file": st.fixed_dictionaries({"path": plain_paths, "new_path": plain_paths}),
    "make_folder": st.fixed_dictionaries({"path": plain_paths}),
    "write_stdin": st.fixed_dictionaries({"session_id": st.integers(0, 99), "chars": texts}),
}
values = st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3)
NAMES = [
    *"path new_path content old_lines new_lines old_text new_text command cmd chars session_id".split(),
    *"file_path old_string new_string".split(),
]
anything = st.dictionaries(
    st.sampled_from(NAMES),
    values,
)
markers = ["*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: a", "*** Delete File: a", "*** Move to: b"]
pieces = st.sampled_from([*markers, "*** End of File", "@@", "@@ f", "+", "+a", "-a", " a", "", "\r"]) | st.text(max_size=4)
patches = st.lists(pieces, max_size=8).map("\n".join)


@given(st.data())
@pytest.mark.parametrize("row", FUNCTIONS, ids="-".join)
def test_function_to_tool_to_function_is_the_identity_on_normalised_calls(row: Row, data: st.DataObject) -> None:
    function = FUNCTIONS[row]
    arguments = data.draw(normalised[function.name])
    own = function.easy_arguments(function.tool_arguments(written(arguments)))
    assert own is not None
    assert json.loads(own) == arguments


@given(st.data())
@pytest.mark.parametrize("row", FUNCTIONS, ids="-".join)
def test_a_call_is_normalised_once(row: Row, data: st.DataObject) -> None:
    """Whatever was written, the history shows the same from then on."""
    function = FUNCTIONS[row]
    native = function.tool_arguments(data.draw(anything.map(json.dumps) | st.text(max_size=10)))
    shown = function.easy_arguments(native)
    if shown is not None:
        assert function.easy_arguments(function.tool_arguments(shown)) == shown


@given(st.data())
@pytest.mark.parametrize("row", FUNCTIONS, ids="-".join)
def test_no_call_of_a_client_breaks_the_way_back(row: Row, data: st.DataObject) -> None:
    native = data.draw(
        patches.map(lambda patch: json.dumps({"input": patch}))
        | patches.map(lambda patch: json.dumps({"type": "update_file", "path": "a", "diff": patch}))
        | anything.map(json.dumps)
        | st.text()
    )
    shown = FUNCTIONS[row].easy_arguments(native)
    assert shown is None or isinstance(shown, str)


@given(st.data())
def test_every_rendered_patch_follows_the_grammar_of_codex(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["write_file", "edit_file", "delete_file"]))
    native = FUNCTIONS["custom", "apply_patch", name].tool_arguments(written(data.draw(normalised[name])))
    assert grammars.complaint(Grammar("grammar", "lark", PATCH_GRAMMAR), json.loads(native)["input"]) is None


# The result of a call after which input may be sent.
RUNS = "Process running with session ID 7"


@settings(max_examples=25)
@given(st.data())
def test_a_conversation_with_easy_functions_only_ever_grows_at_its_end(data: st.DataObject) -> None:
    tools = [EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH, OTHER]
    outputs = dict.fromkeys(("write_file", "edit_file", "delete_file", "apply_patch"), "custom_tool_call_output")
    items: list[Item] = [{"role": "developer", "content": "Be kind."}, USER]
    items += [function_call("c", "exec_command", '{"cmd": "python3 -i"}'), call_output("c", RUNS)]
    before = convert(items, tools)
    for turn in range(6):
        name = data.draw(st.sampled_from([*normalised, "apply_patch", "other"]))
        arguments = data.draw(normalised.get(name, st.just({"input": TWO_FILES})))
        (item,) = output_of(tools, called(call(name, written(arguments), id=f"c{turn}")), input=items)
        items += [item, {"type": outputs.get(name, "function_call_output"), "call_id": f"c{turn}", "output": RUNS}]
        after = convert(items, tools)
        assert after.chat.messages[: len(before.chat.messages)] == before.chat.messages
        function = last_call(after).function
        assert (function.name, json.loads(function.arguments)) == (name, arguments)
        before = after
