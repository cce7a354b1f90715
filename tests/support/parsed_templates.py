"""Chat templates for the tiny model that make llama.cpp treat constraints and efforts badly.

llama.cpp recognizes some templates by words in them, and then uses a parser of its own for them (common/chat.cpp,
common/parsers). These have the words, and nothing else of the models that they are named after.
"""

_TOOLS = "{%- for tool in tools or [] -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}"


def _turns(before: str, between: str, after: str) -> str:
    """Messages in their marks."""
    written = f"{{{{- '{before}' + message.role + '{between}' + (message.content or '') + '{after}' -}}}}"
    return f"{_TOOLS}{{%- for message in messages -%}}{written}{{%- endfor -%}}"


def _answer(opened: str) -> str:
    return f"{{%- if add_generation_prompt -%}}{{{{- '{opened}' -}}}}{{%- endif -%}}"


_THOUGHT = (
    "{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}"
)
_CHATML = (
    _TOOLS
    + "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' -}}"
    + _THOUGHT
    + "{{- (message.content or '') + '<|im_end|>\\n' -}}{%- endfor -%}"
)
_CLOSED = "{%- if add_generation_prompt and enable_thinking is defined and not enable_thinking -%}{{- 'CLOSED' -}}{%- endif -%}"

# A thought that the template opens, whatever is asked of it.
ALWAYS_THINKS = _CHATML + _answer("<|im_start|>assistant\\n<think>\\n")
# A thought that can be switched off.
MAY_THINK = ALWAYS_THINKS + _CLOSED.replace("CLOSED", "\\n</think>\\n\\n")
# The schema of an answer is ignored.
KIMI = (
    "{#- <|tool_calls_section_begin|> <|tool_call_begin|> -#}"
    + _turns("<|im_user|>", "<|im_middle|>", "<|im_end|>")
    + _answer("<|im_assistant|>assistant<|im_middle|>")
)
# Beside tools the schema of an answer is demanded, but nothing makes the model follow it.
DEEPSEEK = (
    "{%- set dsml_token = 'DSML' -%}{#- function_calls -#}"
    + _turns("<｜", "｜>", "")
    + _answer("<｜Assistant｜><think>")
    + _CLOSED.replace("CLOSED", "</think>")
)
# An answer that does not begin as these have it fails.
HARMONY = _turns("<|start|>", "<|channel|>final<|message|>", "<|end|>") + _answer("<|start|>assistant")
FUNCTIONARY = (
    "{#- >>>all >>>${recipient} -#}"
    + _turns("<|start_header_id|>", "<|end_header_id|>\\n\\n", "<|eot_id|>")
    + _answer("<|start_header_id|>assistant<|end_header_id|>\\n\\n>>>")
)
OWN_EFFORTS = (
    "{%- if reasoning_effort is defined and reasoning_effort not in ['low', 'high'] -%}"
    "{{- raise_exception('reasoning_effort must be low or high, and not ' + reasoning_effort) -}}{%- endif -%}"
) + MAY_THINK
