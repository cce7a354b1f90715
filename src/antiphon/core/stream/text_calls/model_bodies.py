"""What models write between the marker and the end of a call: the bodies that the rows of `FORMS` name."""

import re

from antiphon.core.stream.text_calls.bodies import NAME, SPACE, GemmaCall, JsonCalls, NamedCall, PythonCalls
from antiphon.patterns import Pattern


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
