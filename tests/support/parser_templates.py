"""Chat templates for which llama.cpp has a parser of its own, which it recognizes by marks in their text.

The templates are small and our own; the marks are llama.cpp's, and so is what its parser then does to a request. The names of
the functions that do it are in common/parsers of its sources.
"""

from support.battery_templates import DemandingTemplate

_TOOLS = """\
{%- for tool in tools or [] -%}
{%- if loop.first -%}{{- '@BEGIN@Functions, as JSON, one a line:\\n' -}}{%- endif -%}
{{- (tool | tojson) + '\\n' -}}
{%- if loop.last -%}{{- '@END@' -}}{%- endif -%}
{%- endfor -%}
"""


def _tools(begin: str, end: str) -> str:
    return _TOOLS.replace("@BEGIN@", begin).replace("@END@", end)


# common_chat_params_init_deepseek_v3_2: tools make its grammar lazy, also beside a `response_format`. So the grammar is never
# used, and what the model writes is not what the parser expects.
LIKE_DEEPSEEK = (
    """\
{%- set dsml_token = '｜DSML｜' -%}
"""
    + _tools("<｜System｜>", "")
    + """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- '<｜Assistant｜>' -}}
{%- if message.reasoning_content -%}{{- '<think>' + message.reasoning_content + '</think>' -}}{%- endif -%}
{{- message.content or '' -}}
{%- for call in message.tool_calls or [] -%}
{%- if loop.first -%}{{- '\\n\\n<' + dsml_token + 'function_calls>\\n' -}}{%- endif -%}
{{- '<' + dsml_token + 'invoke name="' + call.function.name + '">\\n' -}}
{{- (call.function.arguments | tojson) + '\\n</' + dsml_token + 'invoke>\\n' -}}
{%- if loop.last -%}{{- '</' + dsml_token + 'function_calls>' -}}{%- endif -%}
{%- endfor -%}
{%- elif message.role == 'tool' -%}
{{- '<｜User｜><function_results>' + message.content + '</function_results>' -}}
{%- elif message.role == 'system' -%}
{{- '<｜System｜>' + message.content -}}
{%- else -%}
{{- '<｜User｜>' + message.content -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<｜Assistant｜><think>' -}}
{%- if enable_thinking is defined and not enable_thinking -%}{{- '</think>' -}}{%- endif -%}
{%- endif -%}
"""
)

# The same, and where a result comes last there is no mark of the assistant, which the parser wants.
LIKE_DEEPSEEK_V3_2 = LIKE_DEEPSEEK.replace(
    "{{- '<｜Assistant｜><think>' -}}",
    "{%- if messages[-1].role == 'user' -%}{{- '<｜Assistant｜><think>' -}}{%- else -%}{{- '\\n\\n<think>' -}}{%- endif -%}",
)

# common_chat_params_init_kimi_k2 makes no grammar of a `response_format`.
LIKE_KIMI = (
    _tools("<|im_system|>tool_declare<|im_middle|>", "<|im_end|>")
    + """\
{%- for message in messages -%}
{{- '<|im_' + message.role + '|>' + message.role + '<|im_middle|>' -}}
{%- if message.reasoning_content -%}{{- '<think>' + message.reasoning_content + '</think>' -}}{%- endif -%}
{{- message.content or '' -}}
{%- for call in message.tool_calls or [] -%}
{%- if loop.first -%}{{- '<|tool_calls_section_begin|>' -}}{%- endif -%}
{{- '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' -}}
{{- (call.function.arguments | tojson) + '<|tool_call_end|>' -}}
{%- if loop.last -%}{{- '<|tool_calls_section_end|>' -}}{%- endif -%}
{%- endfor -%}
{{- '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_assistant|>assistant<|im_middle|>' -}}{%- endif -%}
"""
)

# common_chat_params_init_gigachat_v3 makes no grammar of a `response_format` either.
LIKE_GIGACHAT = (
    _tools("developer<|role_sep|>\\n", "<|message_sep|>\\n\\n")
    + """\
{%- for message in messages -%}
{%- if message.content or not message.tool_calls -%}
{{- message.role + '<|role_sep|>\\n' + message.content + '<|message_sep|>\\n\\n' -}}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- 'function call<|role_sep|>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}<|message_sep|>\\n\\n' -}}
{%- endfor -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'assistant<|role_sep|>\\n' -}}{%- endif -%}
"""
)

# common_chat_params_init_gpt_oss: a text without the marks of a channel is an error.
LIKE_GPT_OSS = (
    _tools("<|start|>developer<|message|>", "<|end|>")
    + """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{%- if message.tool_calls and message.content and message.thinking -%}
{{- raise_exception("Cannot pass both content and thinking in an assistant message with tool calls!") -}}
{%- endif -%}
{%- if message.thinking -%}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' -}}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- '<|start|>assistant to=functions.' + call.function.name + '<|channel|>commentary json<|message|>' -}}
{{- (call.function.arguments | tojson) + '<|call|>' -}}
{%- endfor -%}
{%- if not message.tool_calls -%}
{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' -}}
{%- endif -%}
{%- else -%}
{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%}
"""
)

# common_chat_params_init_functionary_v3_2: a text that is addressed to nobody is an error.
LIKE_FUNCTIONARY = (
    "{%- set form = '>>>${recipient}' -%}\n"
    + _tools("<|start_header_id|>system<|end_header_id|>\\n\\n", "<|eot_id|>")
    + """\
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}
{%- if message.role == 'assistant' -%}
{%- if message.content or not message.tool_calls -%}{{- '>>>all\\n' + message.content -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- '>>>' + call.function.name + '\\n' + (call.function.arguments | tojson) -}}
{%- endfor -%}
{%- else -%}
{{- message.content -}}
{%- endif -%}
{{- '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n>>>' -}}{%- endif -%}
"""
)

# No parser of its own, but what common/chat-auto-parser-generator.cpp makes of a template with marks around a text: one without
# them is an error, unless the request has `reasoning_format: none`.
LIKE_COMMAND_R = (
    _tools("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
    + """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}
{%- if message.reasoning_content -%}
{{- '<|START_THINKING|>' + message.reasoning_content + '<|END_THINKING|>' -}}
{%- endif -%}
{%- if message.tool_calls -%}
{{- '<|START_ACTION|>[' -}}
{%- for call in message.tool_calls -%}
{{- '\\n    {"tool_call_id": "' + call.id + '", "tool_name": "' + call.function.name + '", "parameters": ' -}}
{{- (call.function.arguments | tojson) + '}' -}}
{%- if not loop.last -%}{{- ',' -}}{%- endif -%}
{%- endfor -%}
{{- '\\n]<|END_ACTION|>' -}}
{%- else -%}
{{- '<|START_RESPONSE|>' + message.content + '<|END_RESPONSE|>' -}}
{%- endif -%}
{{- '<|END_OF_TURN_TOKEN|>' -}}
{%- elif message.role == 'user' -%}
{{- '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + message.content + '<|END_OF_TURN_TOKEN|>' -}}
{%- else -%}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + message.content + '<|END_OF_TURN_TOKEN|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}{%- endif -%}
"""
)

WITH_PARSERS: dict[str, DemandingTemplate] = {
    "like DeepSeek's": DemandingTemplate(LIKE_DEEPSEEK, opens_thought=True),
    "like DeepSeek V3.2's": DemandingTemplate(LIKE_DEEPSEEK_V3_2, opens_thought=True),
    "like Kimi's": DemandingTemplate(LIKE_KIMI),
    "like GigaChat's": DemandingTemplate(LIKE_GIGACHAT),
    "like gpt-oss's": DemandingTemplate(LIKE_GPT_OSS),
    "like Functionary's": DemandingTemplate(LIKE_FUNCTIONARY),
    "like Command R's": DemandingTemplate(LIKE_COMMAND_R),
}
