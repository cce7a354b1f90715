"""Errors and notices in plain words: what they mean, and what to do about them."""

from typing import NamedTuple


class Explanation(NamedTuple):
    meaning: str
    what_to_do: str


# By the code of the error.
ERRORS: dict[str, Explanation] = {
    "invalid_json": Explanation("The body of the request is not a JSON object.", "Look at what the client sent, on the left."),
    "missing_required_parameter": Explanation("A field that is needed is missing.", "Add the field that the message names."),
    "unsupported_parameter": Explanation("A field is set that this server cannot follow.", "Leave the field out."),
    "unsupported_value": Explanation(
        "A field has a value that this server cannot follow.", "Use a value that the message allows."
    ),
    "invalid_value": Explanation("A field has a value that does not exist.", "Use a value that the message allows."),
    "invalid_type": Explanation("A field has the wrong type.", "Send the type that the message names."),
    "context_length_exceeded": Explanation(
        "The prompt has more tokens than the engine's context window.",
        "Shorten the input, set `truncation` to auto, compact the conversation, or give the engine a larger context.",
    ),
    "previous_response_not_found": Explanation(
        "`previous_response_id` names a response that is not stored: it was made with `store` false, was deleted, has expired, "
        "or belongs to another key.",
        "Send the whole history in `input`, or store responses that are to be continued.",
    ),
    "model_not_found": Explanation(
        "No engine serves a model of this name.", "Use a name that /v1/models lists, or set `model_names` or `default_model`."
    ),
    "invalid_api_key": Explanation(
        "The key is missing or unknown.", "Send a key of the settings as `Authorization: Bearer KEY`."
    ),
    "conflict": Explanation("Another request is using the same conversation.", "Wait for it to end, and send this one again."),
    "response_cancelled": Explanation("The client cancelled the response.", "Nothing: this was asked for."),
    "rate_limit_exceeded": Explanation(
        "More requests came than a limit allows: the gateway's own, or the engine's.",
        "Wait as long as `Retry-After` says, or raise `key_responses` or `key_requests_per_minute`.",
    ),
    "insufficient_quota": Explanation(
        "The budget of the key is used up.",
        "Wait for the next day or month, or raise it: `antiphon key limit`, or `[usage.budgets]`.",
    ),
    "request_too_large": Explanation(
        "The body is larger than the gateway takes at this path.", "Send less. A limit above 1 MiB is `max_body_bytes`."
    ),
    "store_unavailable": Explanation(
        "The database of stored responses did not answer.", "Look at the database. `store` false works without it."
    ),
    "engine_error": Explanation("The engine failed while it answered.", "Look at the last chunk, and at the engine's log."),
    "engine_unavailable": Explanation(
        "The engine cannot be reached, or is not ready yet.", "Check that it runs at its address: `antiphon doctor` shows it."
    ),
    "engine_busy": Explanation(
        "The engine has as many requests as it may have, and the queue did not move in time.",
        "Send fewer at once, or raise `engine_requests`, `engine_queue` or `queue_timeout`.",
    ),
    "engine_stalled": Explanation(
        "The engine sent nothing for longer than `idle_timeout`, or `first_byte_timeout` before its first byte.",
        "Look at the engine's load. A long prompt on a slow machine may need a longer `first_byte_timeout`.",
    ),
    "response_timeout": Explanation(
        "The response took longer than a response may take.",
        "Limit its length with `max_output_tokens`, or raise `response_timeout`.",
    ),
    "engine_answer_not_understood": Explanation(
        "The engine answered with something that is not Chat Completions, or its stream broke off.",
        "Look at the last chunk. A proxy in between, or a crash of the engine, are the usual causes.",
    ),
    "answer_invalid": Explanation(
        "The model was asked twice, and did not do what the request requires: a call, or JSON that follows a schema.",
        "Simplify the schema, use a larger model, or an engine that constrains answers.",
    ),
    "http_error": Explanation(
        "An MCP server of the request did not list its tools.",
        "The message has the server's label and its answer. Look at its URL, and at the token or headers that it wants.",
    ),
    "file_not_found": Explanation(
        "The request names an uploaded file that is not there: it was deleted, has expired, or is another key's.",
        "Upload it again with POST /v1/files, and send the new id.",
    ),
    "approval_request_not_found": Explanation(
        "The input approves a call that is neither in the input nor in the history.",
        "Send the approval request before its response, or continue the response that has it.",
    ),
    "internal_error": Explanation("The gateway has a bug.", "Report it, with the trace from the log."),
    "schema_not_kept": Explanation(
        "The engine was to constrain the answer to a schema, and did not. From now on its answers are checked first.",
        "Send the request again.",
    ),
    "invalid_prompt": Explanation(
        "The engine rejected the request, or the model gave no valid answer to it.", "The message says what is wrong."
    ),
    "server_error": Explanation("The response failed.", "The message says why."),
}

OTHER_ERROR = Explanation("The request could not be answered.", "The message says why.")

# What a notice has in it → what it means. The first that fits counts.
NOTICES: tuple[tuple[str, str], ...] = (
    ("is unknown and was left out", "The request has a field that is not part of the Responses API. It had no effect."),
    (
        "help for a small model",
        "The model is small, so it was offered easier tools in place of the client's. Calls are translated back.",
    ),
    (
        "reasoning effort",
        "The engine knows other efforts of reasoning than the request asks for; the nearest one was used, or none.",
    ),
    ("logprobs were left out", "This engine gives no token probabilities in this situation."),
    (
        "there is no such file",
        "The history names an uploaded file that was deleted, or has expired. The model gets a note in its place.",
    ),
    ("the PDF has no text", "The PDF consists of scanned pages. The model gets them as images."),
    (
        "sealed reasoning of another server",
        "The history has encrypted reasoning that only another server can read. It was left out.",
    ),
    ("cannot be opened here", "The history has a part that another server encrypted. It was left out."),
    (
        "its arguments are not a JSON object",
        "An earlier call in the history is damaged. Engines reject that, so it was wrapped.",
    ),
    ("was sent again", "The client repeated something of the history. It counts once."),
    (
        "has no output: a placeholder was sent",
        "A call in the history has no result. Engines reject that, so a short note stands there.",
    ),
    ("are not offered:", "A server that the operator adds to requests did not list its tools, so the model had none of them."),
    ("was offered twice", "Two tools have the same name. The model saw the first one."),
    (
        "while it was thinking",
        "The thought used up all tokens that the answer may have, so the model was asked again without thinking.",
    ),
    ("input_tokens were", "How the tokens of the prompt were counted."),
    ("context_management", "The automatic compaction that the request asks for was not possible."),
    ("was left out", "A part of the request was not sent to the engine."),
    ("was ignored", "A part of the request had no effect."),
    ("was sent as", "The engine got a part of the request in another form."),
)

OTHER_NOTICE = "The gateway changed something on the way to the engine or back."


def explain_error(code: str | None) -> Explanation:
    return ERRORS.get(code or "", OTHER_ERROR)


def explain_notice(notice: str) -> str:
    return next((meaning for words, meaning in NOTICES if words in notice), OTHER_NOTICE)
