"""The arguments of calls in text: repaired, typed by the schema, and read from literals."""

import json
from typing import Any

import pytest
from support.call_finder import Merged, assert_is_text, merge, read, splits

from antiphon.core.stream.text_calls import TextCalls

STRING_MARK = '<|"|>'
NAMES = ["get_weather", "exec"]
SCRIPT = 'cat > a.py <<EOF\nif x:\n\tprint("hi")\nEOF\npython a.py \\\n  --fast\n'


def calls(text: str, tools: Any = NAMES) -> list[tuple[str, Any]]:
    """The calls that a finder makes of a text, the same in every split; nothing else may be found."""
    results: list[Merged] = [merge(read(TextCalls(tools), pieces)) for pieces in splits(text, others=6)]
    assert all(result == results[0] for result in results)
    assert all(part[0] == "call" for part in results[0]), results[0]
    return [(str(part[2]), json.loads(str(part[3]))) for part in results[0]]


# ---- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    ["{}", "\n{}\n", "[{}]", "```json\n{}\n```", "```\n{}", "Well.\n{}", "<tool_call>{}</tool_call>", "<tools>\n{}\n</tools>"],
)
def test_line_breaks_and_tabs_inside_a_string_are_repaired(form: str) -> None:
    # Quotation marks are escaped, as models do; what is between the lines is not.
    raw = SCRIPT.replace('"', r"\"")
    text = form.replace("{}", f'{{"name": "exec", "arguments": {{"cmd": "{raw}"}}}}')
    deltas = merge(read(TextCalls(NAMES), [text]))
    assert merge(read(TextCalls(NAMES), list(text))) == deltas
    assert [json.loads(str(part[3])) for part in deltas if part[0] == "call"] == [{"cmd": SCRIPT}]


def test_a_long_script_is_repaired_too() -> None:
    script = "\n".join(f"print('a {number}')" for number in range(400))
    lacks_bracket = f"<function=exec>{json.dumps({'cmd': script})[:-1]}</function>"
    assert calls(lacks_bracket) == [("exec", {"cmd": script})]
    has_a_comma = f"<function=exec>{json.dumps({'cmd': script})[:-1]},}}</function>"
    assert calls(has_a_comma) == [("exec", {"cmd": script})]


def test_commas_that_nothing_follows_are_left_out_but_not_those_in_strings() -> None:
    text = '<tool_call>{"name": "exec", "arguments": {"cmd": "f(a, )\\", ]", "more": [1, {"b": 2, }, ], },}</tool_call>'
    assert calls(text) == [("exec", {"cmd": 'f(a, )", ]', "more": [1, {"b": 2}]})]


def test_line_breaks_inside_a_string_are_kept_where_the_tool_was_not_offered() -> None:
    assert_is_text('{"name": "rm", "arguments": {"cmd": "a\nb"}}', NAMES)
    assert_is_text('<tools>{"name": "rm", "arguments": {"cmd": "a\nb"}}</tools>', NAMES)


@pytest.mark.parametrize("name", ["name", "function", "tool", "tool_name", "function_name", "action"])
def test_the_members_of_marked_json_may_be_called_otherwise(name: str) -> None:
    for arguments in ("arguments", "parameters", "args", "tool_input", "action_input", "params", "input"):
        text = f'<tool_call>{{"{name}": "exec", "{arguments}": {{"cmd": "ls"}}}}</tool_call>'
        assert calls(text) == [("exec", {"cmd": "ls"})], arguments


def test_arguments_may_be_a_string_with_json_and_line_breaks() -> None:
    inner = json.dumps(json.dumps({"cmd": "a\nb"}))
    assert calls(f'<tools>{{"name": "exec", "arguments": {inner}}}</tools>') == [("exec", {"cmd": "a\nb"})]


@pytest.mark.parametrize("between", ["", "\n", ", ", ";\n"])
def test_several_objects_between_one_pair_of_markers_are_several_calls(between: str) -> None:
    first, second = '{"name": "exec", "arguments": {}}', '{"name": "get_weather", "arguments": {"city": "Rome"}}'
    expected = [("exec", {}), ("get_weather", {"city": "Rome"})]
    assert calls(f"<tools>{first}{between}{second}</tools>") == expected
    assert calls(f"<tools>[{first}, {second}]</tools>") == expected


def test_a_list_with_a_tool_that_was_not_offered_is_text() -> None:
    assert_is_text('<tools>[{"name": "exec", "arguments": {}}, {"name": "rm", "arguments": {}}]</tools>', NAMES)


def test_calls_in_a_section_up_to_one_that_was_not_offered_are_calls() -> None:
    call = "<|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    text = f"<|tool_calls_section_begin|>{call.format('exec')}{call.format('rm')}<|tool_calls_section_end|>"
    assert merge(read(TextCalls(NAMES), [text])) == [
        ("call", 0, "exec", "{}"),
        ("text", f"{call.format('rm')}<|tool_calls_section_end|>"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "exec", "arguments": {"cmd": "ls"}}',
        "<function=exec><parameter=cmd>ls</parameter></function>",
        '<function name="exec"><param name="cmd">ls</param></function>',
        '<invoke name="exec"><parameter name="cmd">ls</parameter></invoke>',
        "exec\n<arg_key>cmd</arg_key>\n<arg_value>ls</arg_value>\n",
        'exec\n{"cmd": "ls"}\n',
        'exec(cmd="ls")',
        '[exec(cmd="ls")]',
    ],
)
def test_any_body_may_be_in_any_tag(body: str) -> None:
    for tag in ("tool_call", "tools", "tool_calls", "function_call", "function_calls", "minimax:tool_call"):
        assert calls(f"<{tag}>{body}</{tag}>") == [("exec", {"cmd": "ls"})], tag


# ---- parameters without a type ---------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "any": {},
        "both": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"type": ["string", "null"]},
        "color": {"enum": ["red", "1"]},
        "fixed": {"const": "2"},
        "referenced": {"$ref": "#/$defs/code"},
        "circular": {"$ref": "#/$defs/circle"},
        "lost": {"$ref": "#/$defs/nowhere"},
    },
    "$defs": {"code": {"type": "string"}, "circle": {"$ref": "#/$defs/circle"}},
}


@pytest.mark.parametrize(
    ("key", "written", "meant"),
    [
        ("text", "42", "42"),
        ("text", "true", "true"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("text", '"quoted"', '"quoted"'),
        ("text", "\n two\nlines \n", " two\nlines "),
        ("count", "42", 42),
        ("count", " 42\n", 42),
        ("count", "many", "many"),
        ("count", "1.5", 1.5),
        ("ratio", "1", 1),
        ("flag", "true", True),
        ("flag", "True", True),
        ("flag", "yes", "yes"),
        ("list", "[1, 2]", [1, 2]),
        ("list", "['a', 'b']", ["a", "b"]),
        ("any", "42", 42),
        ("any", "word", "word"),
        ("both", "42", 42),
        ("both", "x", "x"),
        ("maybe", "null", None),
        ("maybe", "42", "42"),
        ("color", "1", "1"),
        ("fixed", "2", "2"),
        ("referenced", "42", "42"),
        ("circular", "42", 42),
        ("lost", "42", 42),
        ("unknown", "42", 42),
    ],
)
def test_the_schema_decides_what_a_parameter_without_a_type_means(key: str, written: str, meant: Any) -> None:
    tools = {"exec": SCHEMA}
    for text in (
        f"<tool_call><function=exec><parameter={key}>{written}</parameter></function></tool_call>",
        f'<invoke name="exec"><parameter name="{key}">{written}</parameter></invoke>',
        f"<tool_call>exec\n<arg_key>{key}</arg_key>\n<arg_value>{written}</arg_value></tool_call>",
    ):
        ((name, arguments),) = calls(text, tools)
        assert (name, arguments) == ("exec", {key: meant})
        assert type(arguments[key]) is type(meant)


@pytest.mark.parametrize(("stated", "meant"), [("true", "42"), ("false", 42)])
def test_a_parameter_may_say_itself_whether_it_is_a_string(stated: str, meant: Any) -> None:
    parameter = f'<｜DSML｜parameter name="x" string="{stated}">42</｜DSML｜parameter>'
    assert calls(f'<｜DSML｜invoke name="exec">{parameter}</｜DSML｜invoke>') == [("exec", {"x": meant})]


@pytest.mark.parametrize(("stated", "meant"), [("string", "42"), ("integer", 42)])
def test_a_parameter_may_name_its_type(stated: str, meant: Any) -> None:
    argument = f'<|open|>argument key="x" type="{stated}"<|sep|>42<|close|>argument<|sep|>'
    assert calls(f'<|open|>tools<|sep|><|open|>call tool="exec"<|sep|>{argument}<|close|>call<|sep|>') == [
        ("exec", {"x": meant})
    ]


def test_a_value_may_contain_the_tags_of_values() -> None:
    value = "</parameter> x <parameter name=>"
    assert calls(f'<invoke name="exec"><parameter name="cmd">{value}</parameter></invoke>') == [("exec", {"cmd": value})]
    value = "</arg_value> <arg_key> </tool_call>"
    assert calls(f"<tool_call>exec<arg_key>cmd</arg_key><arg_value>{value}</arg_value></tool_call>") == [
        ("exec", {"cmd": value})
    ]


def test_a_nested_value_of_minimax_3_is_text() -> None:
    mark = "]<]minimax[>["
    items = "".join(f"{mark}<item>{each}{mark}</item>" for each in "ab")
    body = f'{mark}<invoke name="exec">{mark}<cmd>{items}{mark}</cmd>{mark}</invoke>'
    assert_is_text(f"{mark}<tool_call>\n{body}\n{mark}</tool_call>", NAMES)


def test_an_end_that_was_not_opened_is_dropped() -> None:
    assert calls('<|tool_call|>[{"name": "exec", "arguments": {}}]<|/tool_call|>') == [("exec", {})]


# ---- literals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1", 1),
        ("-2.5e3", -2.5e3),
        ("True", True),
        ("false", False),
        ("None", None),
        ("''", ""),
        ('""', ""),
        ("'it\\'s'", "it's"),
        ('"a \\"b\\" \\n \\d \\x41\\u00e9"', 'a "b" \n \\d Aé'),
        ('"two\nlines"', "two\nlines"),
        ('"""a "quoted" ""word"""', 'a "quoted" ""word'),
        ("'''x\n'y' '''", "x\n'y' "),
        ("[1, 'a', [True], ]", [1, "a", [True]]),
        ("{'a': {'b': [1]}, \"c\": 2}", {"a": {"b": [1]}, "c": 2}),
        ("[]", []),
        ("{}", {}),
    ],
)
def test_a_literal_of_python_is_read_without_being_evaluated(written: str, meant: Any) -> None:
    assert calls(f"[exec( cmd = {written} , n=1)]") == [("exec", {"cmd": meant, "n": 1})]
    assert calls(f"<|tool_call_start|>[exec(cmd={written}), exec()]<|tool_call_end|>") == [
        ("exec", {"cmd": meant}),
        ("exec", {}),
    ]


@pytest.mark.parametrize(
    "written",
    [
        "x",
        "f()",
        "1 + 1",
        "b'x'",
        "f'x'",
        "(1, 2)",
        "{1, 2}",
        "{1: 2}",
        "lambda: 1",
        "[x for x in y]",
        "nan",
        "1_000",
        "...",
        "=1",
    ],
)
def test_what_is_not_a_literal_is_text(written: str) -> None:
    assert_is_text(f"[exec(cmd={written})]", NAMES)
    assert_is_text(f"<|tool_call_start|>[exec(cmd={written})]<|tool_call_end|>", NAMES)


@pytest.mark.parametrize(
    "text", ["[exec(1)]", "[exec(a=1, a=2)]", "[exec(**x)]", "[exec(a=1) + 1]", "[exec(a=1),, exec()]", "[exec]"]
)
def test_only_keyword_arguments_that_are_given_once_make_a_call(text: str) -> None:
    assert_is_text(text, NAMES)


def test_a_literal_that_is_nested_too_deeply_is_text() -> None:
    assert_is_text(f"[exec(cmd={'[' * 1000}{']' * 1000})]", NAMES)


def test_gemmas_values_have_the_types_that_they_are_written_with() -> None:
    written = "call:exec{a:<escape>x, {y}<escape>,b:1.5,c:true,d:[<escape>p<escape>,2],e:{f:null}}"
    meant = {"a": "x, {y}", "b": 1.5, "c": True, "d": ["p", 2], "e": {"f": None}}
    assert calls(f"<start_function_call>{written}<end_function_call>") == [("exec", meant)]
    assert calls(f"<|tool_call>{written.replace('<escape>', STRING_MARK)}<tool_call|>") == [("exec", meant)]


def test_reacts_action_may_be_followed_by_the_beginning_of_an_observation() -> None:
    assert calls('Action: exec\nAction Input: {"cmd": "ls"}\nObservation:') == [("exec", {"cmd": "ls"})]


def test_an_action_may_be_an_object_with_its_input() -> None:
    assert calls('Action:\n```\n{"action": "exec", "action_input": {"cmd": "ls"}}\n```') == [("exec", {"cmd": "ls"})]


def test_statements_in_a_block_of_tool_code_are_calls() -> None:
    code = 'exec(cmd="ls")\nprint(default_api.get_weather(city="Paris"))'
    assert calls(f"```tool_code\n{code}\n```") == [("exec", {"cmd": "ls"}), ("get_weather", {"city": "Paris"})]
