"""Chat templates that each make a demand, and some that make several, as the templates of real models do.

They are small and our own. What they raise is what users of such models see.
"""

from dataclasses import dataclass
from typing import Literal

from support.templates import ALTERNATING, ANSWER, TOOLS
from support.tiny_model import CHATML

# Which thoughts of a history a template can show, if they are sent as it wants them: those that follow the last user message
# are the ones of a tool loop.
Thoughts = Literal["all", "of the tool loop", "none"]


@dataclass(frozen=True, slots=True)
class DemandingTemplate:
    text: str
    thoughts: Thoughts = "all"
    # The answer begins inside a thought.
    opens_thought: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine that has one of the templates."""

    name: str
    template: DemandingTemplate
    url: str


# ---- parts -----------------------------------------------------------------------------------------------------------

_OPENED_THOUGHT = """\
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n<think>\\n' -}}
{%- if enable_thinking is defined and not enable_thinking -%}{{- '\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}
"""

_THOUGHT = "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}"
_EVERY_THOUGHT = "{%- if message.reasoning_content -%}" + _THOUGHT + "{%- endif -%}"
_THOUGHT_OF_THE_LOOP = "{%- if message.reasoning_content and loop.index0 > last.user -%}" + _THOUGHT + "{%- endif -%}"
_LAST_USER = """\
{%- set last = namespace(user=-1) -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}
{%- endfor -%}
"""

_TEXT = "{%- if message.content -%}{{- message.content -}}{%- endif -%}"
_TEXT_WITHOUT_THOUGHT = "{%- if message.content -%}{{- (message.content.split('</think>') | last) -}}{%- endif -%}"
_CALLS = """\
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
"""
_RESULT = "{{- '<|im_start|>tool\\n' + message.content + '<|im_end|>\\n' -}}"
_OTHER = "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"


def _turns(
    *,
    assistant: str = _EVERY_THOUGHT + _TEXT + _CALLS,
    result: str = _RESULT,
    other: str = _OTHER,
    messages: str = "messages",
) -> str:
    return (
        f"{{%- for message in {messages} -%}}"
        "{%- if message.role == 'assistant' -%}"
        "{{- '<|im_start|>assistant\\n' -}}" + assistant + "{{- '<|im_end|>\\n' -}}"
        "{%- elif message.role == 'tool' -%}" + result + "{%- else -%}" + other + "{%- endif -%}"
        "{%- endfor -%}"
    )


def _raise_if(condition: str, words: str) -> str:
    return f'{{%- if {condition} -%}}{{{{- raise_exception("{words}") -}}}}{{%- endif -%}}'


# ---- demands ---------------------------------------------------------------------------------------------------------


def _nine_letters(id: str) -> str:
    words = "Tool call IDs should be alphanumeric strings with length 9!"
    return _raise_if(f"not {id} or {id} | length != 9 or '_' in {id} or '-' in {id}", words)


_CALLS_WITH_IDS = (
    """\
{%- for call in message.tool_calls or [] -%}
"""
    + _nine_letters("call.id")
    + """
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + ', "id": "' + call.id + '"}\\n</tool_call>' -}}
{%- endfor -%}
"""
)
_RESULT_WITH_ID = (
    _nine_letters("message.tool_call_id")
    + "{{- '<|im_start|>tool\\n' + message.tool_call_id + ': ' + message.content + '<|im_end|>\\n' -}}"
)

_ONE_CALL = _raise_if(
    "message.tool_calls and message.tool_calls | length != 1", "This model only supports single tool-calls at once!"
)

_ALTERNATION = (
    """\
{%- set said = namespace(count=0) -%}
{%- for message in messages -%}
{%- if message.role not in ['system', 'tool'] and not message.tool_calls -%}
"""
    + _raise_if(
        "(message.role == 'user') != (said.count % 2 == 0)",
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
    )
    + """\
{%- set said.count = said.count + 1 -%}
{%- endif -%}
{%- endfor -%}
"""
)

# Results that are written as user messages do not count.
_A_USER = """\
{%- set found = namespace(query=false) -%}
{%- for message in messages -%}
{%- if message.role == 'user' and not message.content.startswith('<tool_response>') -%}
{%- set found.query = true -%}
{%- endif -%}
{%- endfor -%}
""" + _raise_if("not found.query", "No user query found in messages.")

_NO_LATE_SYSTEM = (
    "{%- for message in messages -%}"
    + _raise_if("message.role == 'system' and not loop.first", "System message must be at the beginning.")
    + "{%- endfor -%}"
)

_NOT_EMPTY = _raise_if(
    "not message.content and not message.tool_calls",
    "Assistant message must have a string or a list of chunks in content or a list of tool calls.",
)

_OWN_EFFORTS = """\
{%- if reasoning_effort is defined and reasoning_effort not in ['no_think', 'low', 'high'] -%}
{{- raise_exception('reasoning_effort error : ' + reasoning_effort + ', should be no_think/low/high') -}}
{%- endif -%}
{{- '<|im_start|>system\\nEffort: ' + (reasoning_effort or 'no_think') + '<|im_end|>\\n' -}}
"""

_TEXT_OR_CALLS = "{%- if message.tool_calls -%}" + _CALLS + "{%- else -%}" + _TEXT + "{%- endif -%}"

# The tools stand in the first user message, so there has to be one. Whatever comes first is taken for it.
_TOOLS_IN_FIRST_MESSAGE = """\
{%- set rest = messages -%}
{%- if rest and rest[0].role == 'system' -%}
{{- '<|im_start|>system\\n' + rest[0].content + '<|im_end|>\\n' -}}
{%- set rest = rest[1:] -%}
{%- endif -%}
{%- if tools -%}
{%- if not rest -%}
{{- raise_exception("Cannot put tools in the first user message when there's no first user message!") -}}
{%- endif -%}
{{- '<|im_start|>user\\nFunctions, as JSON, one a line:\\n' -}}
{%- for tool in tools -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}
{{- rest[0].content + '<|im_end|>\\n' -}}
{%- set rest = rest[1:] -%}
{%- endif -%}
"""


def _plain(*, checks: str = "", assistant: str = _EVERY_THOUGHT + _TEXT + _CALLS, answer: str = ANSWER) -> str:
    return checks + TOOLS + _turns(assistant=assistant) + answer


# ---- templates -------------------------------------------------------------------------------------------------------

DEMANDING: dict[str, DemandingTemplate] = {
    "no demand": DemandingTemplate(_plain()),
    "ids of nine letters": DemandingTemplate(
        TOOLS + _turns(assistant=_EVERY_THOUGHT + _TEXT + _CALLS_WITH_IDS, result=_RESULT_WITH_ID) + ANSWER
    ),
    "one call": DemandingTemplate(_plain(assistant=_ONE_CALL + _EVERY_THOUGHT + _TEXT + _CALLS)),
    "alternation": DemandingTemplate(_plain(checks=_ALTERNATION)),
    # No tools, and no system role.
    "bare alternation": DemandingTemplate(ALTERNATING),
    "a user": DemandingTemplate(_plain(checks=_A_USER)),
    "own efforts": DemandingTemplate(_plain(checks=_OWN_EFFORTS)),
    "thoughts never shown": DemandingTemplate(_plain(assistant=_TEXT_WITHOUT_THOUGHT + _CALLS), thoughts="none"),
    "thoughts in tags": DemandingTemplate(_plain(assistant=_TEXT + _CALLS)),
    "thoughts in the tool loop": DemandingTemplate(
        _plain(checks=_LAST_USER, assistant=_THOUGHT_OF_THE_LOOP + _TEXT_WITHOUT_THOUGHT + _CALLS), thoughts="of the tool loop"
    ),
    # Tags would show more, but the model knows the other form: a template that cuts the thoughts of earlier turns means to.
    "thoughts in the tool loop, or in tags": DemandingTemplate(
        _plain(checks=_LAST_USER, assistant=_THOUGHT_OF_THE_LOOP + _TEXT + _CALLS), thoughts="of the tool loop"
    ),
    "text or calls": DemandingTemplate(_plain(assistant=_EVERY_THOUGHT + _TEXT_OR_CALLS)),
    "opened thought": DemandingTemplate(_plain(answer=_OPENED_THOUGHT), opens_thought=True),
    "no tools": DemandingTemplate(CHATML),
    "no empty message": DemandingTemplate(_plain(assistant=_NOT_EMPTY + _EVERY_THOUGHT + _TEXT + _CALLS)),
    "like Mistral's": DemandingTemplate(
        _ALTERNATION
        + TOOLS
        + _turns(assistant=_NOT_EMPTY + _TEXT_OR_CALLS.replace(_CALLS, _CALLS_WITH_IDS), result=_RESULT_WITH_ID)
        + ANSWER
    ),
    "like Llama's": DemandingTemplate(
        _TOOLS_IN_FIRST_MESSAGE + _turns(assistant=_ONE_CALL + _TEXT_OR_CALLS, messages="rest") + ANSWER
    ),
    "like Qwen's": DemandingTemplate(
        _plain(
            checks=_A_USER + _NO_LATE_SYSTEM + _LAST_USER,
            assistant=_THOUGHT_OF_THE_LOOP + _TEXT_WITHOUT_THOUGHT + _CALLS,
            answer=_OPENED_THOUGHT,
        ),
        thoughts="of the tool loop",
        opens_thought=True,
    ),
}
