"""Chat templates for the tiny model. They decide what llama.cpp can and cannot do."""

_TURNS = """\
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.role == 'assistant' and message.reasoning_content -%}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}
{%- endif -%}
{%- if message.content -%}{{- message.content -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
"""
TOOLS = """\
{%- if tools -%}
{{- '<|im_start|>system\\nFunctions, as JSON, one a line:\\n<tools>\\n' -}}
{%- for tool in tools -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}
{{- '</tools>\\nA call is written so:\\n<tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call><|im_end|>\\n' -}}
{%- endif -%}
"""
ANSWER = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
_THOUGHT = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n<think>\\n' -}}{%- endif -%}"

# Reasoning without tools, and with tools.
THINKING = _TURNS + ANSWER
THINKING_WITH_TOOLS = TOOLS + _TURNS + ANSWER

_BARE_TURNS = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
"""
# The template opens the reasoning, but llama.cpp does not detect it there, so the reasoning is in the text.
OPENS_THOUGHT = _BARE_TURNS + _THOUGHT

# Like Gemma's: no system role, and turns that alternate.
ALTERNATING = (
    """\
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{- raise_exception('System role not supported') -}}{%- endif -%}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') -}}
{%- endif -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
"""
    + ANSWER
)

_THOUGHT_OF = (
    "{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}"
)
_THINKING_TURNS = (
    "{%- for tool in tools or [] -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}"
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' -}}"
    + _THOUGHT_OF
    + "{{- (message.content or '') + '<|im_end|>\\n' -}}{%- endfor -%}"
)
# A thought that the template opens, whatever is asked of it; and one that can be switched off.
ALWAYS_THINKS = _THINKING_TURNS + _THOUGHT
MAY_THINK = ALWAYS_THINKS + (
    "{%- if add_generation_prompt and enable_thinking is defined and not enable_thinking -%}"
    "{{- '\\n</think>\\n\\n' -}}{%- endif -%}"
)
# Other efforts than its own are rejected.
OWN_EFFORTS = (
    "{%- if reasoning_effort is defined and reasoning_effort not in ['low', 'high'] -%}"
    "{{- raise_exception('reasoning_effort must be low or high, and not ' + reasoning_effort) -}}{%- endif -%}"
) + MAY_THINK
