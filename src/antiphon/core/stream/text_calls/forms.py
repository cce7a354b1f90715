"""The forms in which models write calls as text: one row each. The first call of every example is the same.

A form with an end may contain any of the bodies, because small models mix them up.
"""

from enum import Enum

from msgspec import Struct

from antiphon.core.stream.text_calls.bodies import (
    DEEPSEEK_CALL,
    DEEPSEEK_FENCED,
    FUNCTION_TAGS,
    FUNCTIONARY_CALL,
    GEMMA_CALL,
    HY3_CALL,
    INVOKE_TAGS,
    JSON,
    KEYS_AND_VALUES,
    KIMI_3_CALL,
    KIMI_CALL,
    LLAMA_NEXT,
    MINIMAX_3_CALL,
    MISTRAL_CALL,
    MISTRAL_NEXT,
    PARAM_TAGS,
    PYTHON_CALLS,
    QWEN_2_CALL,
    SOLAR_2_CALL,
    SOLAR_CALL,
    STEP_CALL,
    Body,
)


class Place(Enum):
    ANYWHERE = "anywhere outside of code and quotation marks"
    LINE = "at the beginning of a line"
    ALONE = "at the beginning of the text, or alone up to its end"
    END = "alone up to the end of the text"
    BEGINNING = "at the beginning of the text"


class Form(Struct, frozen=True):
    name: str
    written_by: str
    # What it begins with, and what ends it. Without an end, it ends with its last bracket.
    markers: tuple[str, ...]
    ends: tuple[str, ...]
    example: str
    # What is between marker and end. None: the form has a reader of its own.
    body: Body | None = None
    place: Place = Place.ANYWHERE
    # The marker is already the head of the body.
    in_head: bool = False
    # What may directly follow, without a marker, and ends that may follow although nothing is open.
    following: tuple[Body, ...] = ()
    stray: tuple[str, ...] = ()


def _deepseek(word: str) -> tuple[str, ...]:
    return tuple(f"<{bar}tool{gap}{word.replace(' ', gap)}{bar}>" for bar in "｜|" for gap in "▁_")


_CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
_ARGUMENTS = '{"city": "Paris"}'
# Ends of tags that models write, and engines leave in the text, although nothing was opened.
TAG_ENDS = ("</tool_call>", "</tool_calls>", "</function_calls>", "</minimax:tool_call>", "</seed:tool_call>")


def _tag(tag: str, written_by: str, example: str | None = None, body: Body = JSON) -> Form:
    """An opening and a closing tag around JSON, or another body."""
    return Form(f"`<{tag}>`", written_by, (f"<{tag}>",), (f"</{tag}>",), example or f"<{tag}>\n{_CALL}\n</{tag}>", body)


FORMS = (
    _tag("tool_call", "Hermes, Qwen 2.5 and 3, Granite 4, Ernie 4.5, MiMo, Bielik, SmolLM"),
    Form(
        "functions in `<tool_call>`",
        "Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5",
        ("<tool_call>",),
        ("</tool_call>",),
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        FUNCTION_TAGS,
    ),
    Form(
        "keys and values in `<tool_call>`",
        "GLM 4.5 to 4.7, Ling 3, Laguna, Spark 2.5",
        ("<tool_call>",),
        ("</tool_call>",),
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
        KEYS_AND_VALUES,
    ),
    Form(
        "`<function=NAME>`",
        "Llama 3.1, Functionary 3.1, Qwen3-Coder without its outer tag",
        ("<function=",),
        (),
        f"<function=get_weather>{_ARGUMENTS}</function>",
        FUNCTION_TAGS,
        in_head=True,
        stray=TAG_ENDS,
    ),
    Form(
        '`<function name="NAME">`',
        "MiniCPM 5",
        ("<function name=",),
        (),
        '<function name="get_weather"><param name="city"><![CDATA[Paris]]></param></function>',
        PARAM_TAGS,
        in_head=True,
        stray=TAG_ENDS,
    ),
    _tag("tools", "Qwen2.5-Coder beside many tools"),
    _tag("tool_calls", "Apriel, MiniMax-M1, Hunyuan A13B, Jamba", f"<tool_calls>[{_CALL}]</tool_calls>"),
    _tag("TOOLCALL", "Nemotron Nano 2", f"<TOOLCALL>[{_CALL}]</TOOLCALL>"),
    _tag("function_call", "Granite 20B, and fine-tunes on glaive-function-calling"),
    _tag("functioncall", "fine-tunes on glaive-function-calling"),
    _tag("longcat_tool_call", "LongCat"),
    Form(
        "Seed-OSS",
        "Seed-OSS",
        ("<seed:tool_call>",),
        ("</seed:tool_call>",),
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>",
        FUNCTION_TAGS,
    ),
    Form(
        "MiniMax-M2",
        "MiniMax-M2",
        ("<minimax:tool_call>",),
        ("</minimax:tool_call>",),
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        INVOKE_TAGS,
    ),
    Form(
        "MiniMax-M3",
        "MiniMax-M3, with values that are not nested",
        ("]<]minimax[>[<tool_call>",),
        ("]<]minimax[>[</tool_call>",),
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Paris]<]minimax[>[</city>'
        "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        MINIMAX_3_CALL,
        Place.LINE,
    ),
    Form(
        "`<function_calls>`",
        "models that imitate Claude",
        ("<function_calls>",),
        ("</function_calls>",),
        '<function_calls>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n</function_calls>',
        INVOKE_TAGS,
    ),
    Form(
        "calls as in Python in `<function_calls>`",
        "OLMo 3",
        ("<function_calls>",),
        ("</function_calls>",),
        '<function_calls>\nget_weather(city="Paris")\n</function_calls>',
        PYTHON_CALLS,
    ),
    Form(
        "`<invoke>`",
        "models that forget the outer tag",
        ("<invoke name=",),
        (),
        '<invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>',
        INVOKE_TAGS,
        in_head=True,
        stray=TAG_ENDS,
    ),
    Form(
        "DSML",
        "DeepSeek V3.2 and V4",
        ("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
        ("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        INVOKE_TAGS,
    ),
    Form(
        "DSML without its outer tag",
        "DeepSeek V3.2 and V4",
        ("<｜DSML｜invoke name=",),
        (),
        '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>",
        INVOKE_TAGS,
        in_head=True,
        stray=("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
    ),
    Form(
        "ATEM",
        "Muse Glimmer",
        ("<atem:function_calls>",),
        ("</atem:function_calls>",),
        '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls>",
        INVOKE_TAGS,
    ),
    Form(
        "DeepSeek V3",
        "DeepSeek V3 and R1, with its distillates",
        _deepseek("calls begin"),
        _deepseek("calls end"),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        f"{_ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        DEEPSEEK_FENCED,
    ),
    Form(
        "DeepSeek V3.1",
        "DeepSeek V3.1",
        _deepseek("calls begin"),
        _deepseek("calls end"),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        f"{_ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        DEEPSEEK_CALL,
    ),
    Form(
        "DeepSeek V3.1 without its outer mark",
        "DeepSeek V3.1",
        _deepseek("call begin"),
        (),
        f"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{_ARGUMENTS}<｜tool▁call▁end｜>",
        DEEPSEEK_CALL,
        in_head=True,
        stray=_deepseek("calls end"),
    ),
    Form(
        "DeepSeek V3 without its outer mark",
        "DeepSeek V3 and R1, with its distillates",
        _deepseek("call begin"),
        (),
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{_ARGUMENTS}\n```<｜tool▁call▁end｜>",
        DEEPSEEK_FENCED,
        in_head=True,
        stray=_deepseek("calls end"),
    ),
    Form(
        "Step 3",
        "Step 3",
        _deepseek("calls begin"),
        _deepseek("calls end"),
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">'
        '<steptml:parameter name="city">Paris</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
        STEP_CALL,
    ),
    Form(
        "Kimi K2",
        "Kimi K2",
        ("<|tool_calls_section_begin|>",),
        ("<|tool_calls_section_end|>",),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        f"{_ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        KIMI_CALL,
    ),
    Form(
        "Kimi K2 without its outer mark",
        "Kimi K2",
        ("<|tool_call_begin|>",),
        (),
        f"<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{_ARGUMENTS}<|tool_call_end|>",
        KIMI_CALL,
        in_head=True,
        stray=("<|tool_calls_section_end|>",),
    ),
    Form(
        "Kimi K3",
        "Kimi K3",
        ("<|open|>tools<|sep|>",),
        ("<|close|>tools<|sep|>",),
        '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>'
        "Paris<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        KIMI_3_CALL,
    ),
    Form(
        "Hy3",
        "Hunyuan 3",
        ("<tool_calls:opensource>",),
        ("</tool_calls:opensource>",),
        "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n"
        "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Paris</arg_value:opensource>\n"
        "</tool_call:opensource>\n</tool_calls:opensource>",
        HY3_CALL,
    ),
    Form(
        "K2 Horizon",
        "K2 Horizon",
        ("<ifm|tool_call>",),
        ("</ifm|tool_call>",),
        "<ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>Paris</ifm|arg_value></ifm|tool_call>",
        KEYS_AND_VALUES,
    ),
    Form(
        "Solar Open",
        "Solar Open 100B",
        ("<|tool_call:begin|>",),
        (),
        f"<|tool_call:begin|>a1<|tool_call:name|>get_weather<|tool_call:args|>{_ARGUMENTS}<|tool_call:end|>",
        SOLAR_CALL,
        in_head=True,
    ),
    Form(
        "Solar Open 2",
        "Solar Open 2",
        ("<|tool_call:start|>",),
        (),
        "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Paris<|tool_arg:end|>\n<|tool_call:end|>",
        SOLAR_2_CALL,
        in_head=True,
    ),
    Form(
        "`<|tool_call|>`",
        "Granite 3; Phi-4-mini, with an end",
        ("<|tool_call|>",),
        (),
        f"<|tool_call|>[{_CALL}]",
        JSON,
        stray=("<|/tool_call|>",),
    ),
    Form(
        "`<|function_call|>`",
        "GigaChat 3.1",
        ("<|function_call|>",),
        (),
        f"<|function_call|>{_CALL}",
        JSON,
    ),
    Form(
        "`<|tool_call_start|>`",
        "LFM2; with JSON, Pangu",
        ("<|tool_call_start|>", "[unused11]"),
        ("<|tool_call_end|>", "[unused12]"),
        '<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>',
        PYTHON_CALLS,
    ),
    Form(
        "`<|python_start|>`",
        "Llama 4",
        ("<|python_start|>",),
        ("<|python_end|>",),
        '<|python_start|>[get_weather(city="Paris")]<|python_end|>',
        PYTHON_CALLS,
    ),
    Form(
        "`<|START_ACTION|>`",
        "Command R7B, Command A",
        ("<|START_ACTION|>",),
        ("<|END_ACTION|>",),
        f'<|START_ACTION|>[\n    {{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {_ARGUMENTS}}}\n]'
        "<|END_ACTION|>",
        JSON,
    ),
    Form(
        "`<|tools_prefix|>`",
        "Apertus",
        ("<|tools_prefix|>",),
        ("<|tools_suffix|>",),
        f'<|tools_prefix|>[{{"get_weather": {_ARGUMENTS}}}]<|tools_suffix|>',
        JSON,
    ),
    Form(
        "`<|action_start|>`",
        "InternLM 2 and 3",
        ("<|action_start|><|plugin|>",),
        ("<|action_end|>",),
        f'<|action_start|><|plugin|>\n{{"name": "get_weather", "parameters": {_ARGUMENTS}}}<|action_end|>',
        JSON,
    ),
    Form(
        "Inkling",
        "Inkling",
        ("<|content_invoke_tool_json|>",),
        ("<|end_message|>",),
        f'<|content_invoke_tool_json|>{{"name": "get_weather", "args": {_ARGUMENTS}}}<|end_message|>',
        JSON,
    ),
    Form(
        "FunctionGemma",
        "FunctionGemma",
        ("<start_function_call>",),
        ("<end_function_call>",),
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
        GEMMA_CALL,
    ),
    Form(
        "Gemma 4",
        "Gemma 4",
        ("<|tool_call>",),
        ("<tool_call|>",),
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
        GEMMA_CALL,
    ),
    Form(
        "`<|python_tag|>` with JSON",
        "Llama 3.1 to 3.3",
        ("<|python_tag|>",),
        (),
        f'<|python_tag|>{{"name": "get_weather", "parameters": {_ARGUMENTS}}}',
        JSON,
        following=(LLAMA_NEXT,),
    ),
    Form(
        "`<|python_tag|>` with a call as in Python",
        "Llama 3.1 to 3.3",
        ("<|python_tag|>",),
        (),
        '<|python_tag|>get_weather.call(city="Paris")',
        PYTHON_CALLS,
    ),
    Form(
        "`[TOOL_CALLS]` with a list",
        "Mistral 7B, Nemo, Small",
        ("[TOOL_CALLS]",),
        (),
        f"[TOOL_CALLS][{_CALL}]",
        JSON,
    ),
    Form(
        "`[TOOL_CALLS]` with a name",
        "Mistral Small 3.2, Ministral 3, Devstral, Magistral",
        ("[TOOL_CALLS]",),
        (),
        f"[TOOL_CALLS]get_weather[ARGS]{_ARGUMENTS}",
        MISTRAL_CALL,
        following=(MISTRAL_NEXT,),
    ),
    Form(
        "Harmony",
        "gpt-oss",
        ("<|channel|>", "<|start|>"),
        ("<|call|>",),
        f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{_ARGUMENTS}<|call|>",
        place=Place.BEGINNING,
    ),
    Form(
        "`functools`",
        "Phi-4-mini, Firefunction 2",
        ("functools",),
        (),
        f"functools[{_CALL}]",
        JSON,
        Place.LINE,
    ),
    Form(
        "`>>>NAME`",
        "Functionary 3.2",
        (">>>",),
        (),
        f">>>get_weather\n{_ARGUMENTS}",
        FUNCTIONARY_CALL,
        Place.LINE,
        in_head=True,
    ),
    Form(
        "✿FUNCTION✿",
        "Qwen 2 with the prompts of Qwen-Agent",
        ("✿FUNCTION✿",),
        (),
        f"✿FUNCTION✿: get_weather\n✿ARGS✿: {_ARGUMENTS}\n✿RESULT✿",
        QWEN_2_CALL,
        Place.LINE,
        in_head=True,
        stray=("✿RESULT✿",),
    ),
    Form(
        "a role",
        "GigaChat 3",
        ("function call<|role_sep|>",),
        (),
        f"function call<|role_sep|>\n{_CALL}",
        JSON,
        Place.LINE,
    ),
    Form("bare JSON", "Llama 3.1 to 3.3, xLAM, and most small models", (), (), _CALL, place=Place.ALONE),
    Form("a fenced block", "most small models", (), (), f"```json\n{_CALL}\n```", place=Place.ALONE),
    Form(
        "a fenced block of `tool_code`",
        "Gemma 3",
        (),
        (),
        '```tool_code\nprint(get_weather(city="Paris"))\n```',
        place=Place.ALONE,
    ),
    Form("a list as in Python", "Llama 3.2 and 4, ToolACE", (), (), '[get_weather(city="Paris")]', place=Place.END),
    Form(
        "ReAct",
        "models that were taught with prompts",
        ("Action:",),
        (),
        f"Thought: I need the weather.\nAction: get_weather\nAction Input: {_ARGUMENTS}",
        place=Place.END,
    ),
    Form(
        "a list of actions",
        "Command R+",
        ("Action:",),
        (),
        f'Action:\n```json\n[\n    {{\n        "tool_name": "get_weather",\n        "parameters": {_ARGUMENTS}\n    }}\n]```',
        place=Place.END,
    ),
    Form(
        "a name in a line of its own",
        "Functionary 3.2, whose template already wrote `>>>`",
        (),
        (),
        f"get_weather\n{_ARGUMENTS}",
        place=Place.BEGINNING,
    ),
)
