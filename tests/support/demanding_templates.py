"""Chat templates for the tiny model: one that takes and shows everything, and one for each demand that a template can make."""

_TOOLS = """\
{%- if tools -%}
{{- '<|im_start|>system\\nFunctions:\\n' -}}
{%- for tool in tools -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}
{{- 'A call is written so:\\n<tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call><|im_end|>\\n' -}}
{%- endif -%}
"""
_THOUGHT = """\
{%- if message.role == 'assistant' and message.reasoning_content -%}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}
{%- endif -%}
"""
_TEXT = "{%- if message.content -%}{{- message.content -}}{%- endif -%}"
_CALLS = """\
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
"""
_ANSWER = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"


def _template(*, start: str = "", check: str = "", tools: str = _TOOLS, body: str = _THOUGHT + _TEXT + _CALLS) -> str:
    """`start` comes before all messages, `check` before each of them; `body` is what is shown of one."""
    turn = "{{- '<|im_start|>' + message.role + '\\n' -}}" + body + "{{- '<|im_end|>\\n' -}}"
    return start + tools + "{%- for message in messages -%}" + check + turn + "{%- endfor -%}" + _ANSWER


def _raise(condition: str, words: str) -> str:
    return "{%- if " + condition + " -%}{{- raise_exception('" + words + "') -}}{%- endif -%}"


TAKES_ALL = _template()

# Like Gemma's and Llama 2's: a user and an assistant in turn, and nobody else. It has no tools.
STRICT_TURNS = _template(
    check=_raise("(message.role == 'user') != (loop.index0 % 2 == 0)", "Conversation roles must alternate user/assistant/..."),
    tools="",
    body=_THOUGHT + _TEXT,
)
# Like Mistral's: calls and results do not count.
ALTERNATES = _template(
    start=(
        "{%- set turn = namespace(at=0) -%}{%- for message in messages -%}"
        "{%- if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) -%}"
        + _raise("(message.role == 'user') != (turn.at % 2 == 0)", "conversation roles must alternate user/assistant/...")
        + "{%- set turn.at = turn.at + 1 -%}{%- endif -%}{%- endfor -%}"
    )
)
# Like Mistral Nemo's: the system message is shown with the last message, if that is the user's.
SYSTEM_WITH_LAST_USER = _template(
    body=_THOUGHT + "{%- if message.role != 'system' or messages[-1].role == 'user' -%}" + _TEXT + "{%- endif -%}" + _CALLS,
)
# Like Qwen3.5's.
NEEDS_USER = _template(start=_raise("not messages | selectattr('role', 'equalto', 'user') | list", "No user query found."))
# Like GigaChat's and DeepSeek's: only after a user's message, or the result of a call, the assistant's turn is opened.
ANSWERS_USERS = _template().replace("add_generation_prompt", "add_generation_prompt and messages[-1].role in ['user', 'tool']")
# Like Llama 3's.
NEEDS_USER_FOR_TOOLS = _template(
    start=_raise("tools and messages[0].role not in ['user', 'system']", "There is no first user message for the tools")
)
# Like Mistral's.
CHECKS_IDS = _template(
    check="{%- for call in message.tool_calls or [] -%}"
    + _raise("call.id | length != 9", "Tool call IDs should be alphanumeric strings with length 9!")
    + "{%- endfor -%}"
)
# Like Llama 3's, and like gpt-oss's, which shows the first call only.
ONE_CALL = _template(
    check=_raise(
        "message.tool_calls and message.tool_calls | length != 1", "This model only supports single tool-calls at once!"
    )
)
FIRST_CALL = _template(body=_THOUGHT + _TEXT + _CALLS.replace("message.tool_calls or []", "(message.tool_calls or [])[:1]"))
# Like Llama 3's and Mistral's: of a message with calls only the calls are shown. And the other way round.
CALLS_OR_TEXT = _template(body=_THOUGHT + "{%- if message.tool_calls -%}" + _CALLS + "{%- else -%}" + _TEXT + "{%- endif -%}")
TEXT_OR_CALLS = _template(body=_THOUGHT + "{%- if message.content -%}" + _TEXT + "{%- else -%}" + _CALLS + "{%- endif -%}")
# Like gpt-oss's.
THOUGHT_OR_TEXT = _template(
    check=_raise(
        "message.tool_calls and message.content and message.reasoning_content",
        "Cannot pass both content and thinking in an assistant message with tool calls!",
    )
)
# Like those of models that do not think.
NO_THOUGHTS = _template(body=_TEXT + _CALLS)
# Like QwQ's and DeepSeek R1's: the thought is cut off.
CUTS_THOUGHTS = _template(body="{%- if message.content -%}{{- message.content.split('</think>')[-1] -}}{%- endif -%}" + _CALLS)
# Like Qwen3's: the thoughts of the current turn are shown, and no others.
RECENT_THOUGHTS = _template(
    start="{%- set last = namespace(at=0) -%}{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}{%- set last.at = loop.index0 -%}{%- endif -%}{%- endfor -%}",
    body="{%- if loop.index0 > last.at -%}"
    + _THOUGHT
    + "{%- endif -%}{%- if message.content -%}{{- message.content.split('</think>')[-1] -}}{%- endif -%}"
    + _CALLS,
)
# Tools without the calls, calls without the tools, and calls without their results.
NO_CALLS = _template(body=_THOUGHT + _TEXT)
NO_TOOLS = _template(tools="")
NO_RESULTS = _template(body=_THOUGHT + "{%- if message.role != 'tool' -%}" + _TEXT + "{%- endif -%}" + _CALLS)
