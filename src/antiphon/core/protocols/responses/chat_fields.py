"""Fields of Chat Completions in a Responses request: what the Responses API has in their place."""

from typing import Any

from antiphon.errors import InvalidRequest

# Left out, such a field would change what the client gets without its notice: each is a 400.
INSTEAD = {
    "messages": "use `input`",
    "max_tokens": "use `max_output_tokens`",
    "max_completion_tokens": "use `max_output_tokens`",
    "response_format": "use `text.format`",
    "functions": "use `tools`",
    "function_call": "use `tool_choice`",
    "reasoning_effort": "use `reasoning.effort`",
    "verbosity": "use `text.verbosity`",
    "logprobs": "use `include` with `message.output_text.logprobs`, and `top_logprobs`",
    "n": "send one request for each answer",
    "modalities": "a response is text",
    "audio": "a response is text",
}


def refuse_chat_fields(body: dict[str, Any]) -> None:
    if body.keys().isdisjoint(INSTEAD):
        return
    for name, instead in INSTEAD.items():
        if body.get(name) is not None:
            raise InvalidRequest(
                f"Unsupported parameter: `{name}` is a field of Chat Completions. In the Responses API, {instead}.",
                param=name,
                code="unsupported_parameter",
            )
