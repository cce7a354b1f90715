"""Where what Antiphon emits differs from a published schema, and why. Any other difference fails the test that emits it."""

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Deviation:
    document: str
    # Matches the whole path of the value.
    path: str
    reason: str
    # The values that are meant; none means any. `member`: of an object, this member is looked at.
    values: tuple[Any, ...] = ()
    member: str | None = None
    # Part of what the validator says; without it, whatever it says.
    message: str = ""

    def covers(self, document: str, path: str, value: Any, message: str) -> bool:
        if self.document != document or not re.fullmatch(self.path, path) or self.message not in message:
            return False
        if self.member is not None and isinstance(value, dict):
            value = value.get(self.member)
        return not self.values or value in self.values


# Events that neither document has.
UNDESCRIBED = {
    "response.compaction.compacting": "The SDK has it; OpenAI's document is older.",
    "response.dice_call.completed": "The tool of the tests' own extension.",
}

# Events that OpenAI's servers send and Antiphon does not, though it has their items.
NOT_SENT = {
    "apply_patch_call_operation_diff.delta": "Only recordings have it, neither the document nor the SDK. The AI SDK uses "
    "it; `responses.stream()` of openai-node throws at it (6.49 to 7.55). The whole patch is in `output_item.done`.",
    "apply_patch_call_operation_diff.done": "As its delta.",
    "image_generation_call.partial_image": "Tools that make images here have no partial ones.",
}

# Orders of an item's events that no recording has, and why they are right.
ALSO_SENT: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "reasoning",
        ("content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"),
        "Declared by the document; recorded models show no raw thoughts.",
    ),
    (
        "message",
        ("content_part.added", "refusal.delta", "refusal.done", "content_part.done"),
        "Declared by the document; no recorded model refused.",
    ),
    ("compaction", ("compaction.compacting",), "Declared by the SDK."),
    ("shell_call", (), "The model wrote no command."),
)

OPENAI, OPEN = "openai", "open_responses"
RESPONSE = r"(response\.)?"

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        OPEN,
        RESPONSE + "reasoning",
        "OpenAI's document and the SDK have the efforts minimal and max; Open Responses is older.",
        member="effort",
        values=("minimal", "max"),
    ),
    Deviation(
        OPENAI,
        RESPONSE + "usage",
        "OpenAI sends null where there is no usage yet, and the SDK and Open Responses have it so; the document has no null.",
        values=(None,),
    ),
    Deviation(
        OPENAI,
        RESPONSE + r"error(\.code)?",
        "Codex compacts its history for the code context_length_exceeded only; the document's list of codes is without it.",
        member="code",
        values=("context_length_exceeded",),
    ),
    Deviation(
        OPENAI,
        RESPONSE + r"error(\.code)?",
        "Codex stops for insufficient_quota, and tries again after other codes; the document's list of codes is without it.",
        member="code",
        values=("insufficient_quota",),
    ),
    Deviation(
        OPENAI,
        r".*\btype",
        "The tools of extensions in the tests.",
        values=("dice", "dice_call", "abacus", "abacus_call"),
    ),
    Deviation(
        OPENAI,
        RESPONSE + r"tool_choice\.type",
        "The document lets a search be required by its older names only. Clients use those that the tool has in it.",
        values=("web_search", "web_search_2025_08_26"),
    ),
    Deviation(
        OPENAI,
        RESPONSE + r"tool_choice\.type",
        "Of OpenAI's servers a search for tools cannot be required by its type; here it can, and the choice is echoed.",
        values=("tool_search",),
    ),
    Deviation(
        OPENAI,
        r"(data\[\])?",
        "The document requires `request_id` of an mcp_approval_response, and has no such property; nor has the SDK.",
        message='"request_id" is a required property',
        member="type",
        values=("mcp_approval_response",),
    ),
    Deviation(
        OPENAI,
        r"(data\[\])?",
        "The document requires `call_id` of a local_shell_call_output, and has no such property; nor has the SDK.",
        message='"call_id" is a required property',
        member="type",
        values=("local_shell_call_output",),
    ),
    Deviation(
        OPENAI,
        r"(data\[\]\.)?type",
        "Items that only Codex has (agent_message, context_compaction) are listed as they were sent.",
        values=("agent_message", "context_compaction"),
    ),
    Deviation(
        OPENAI,
        r"(data\[\]\.)?type",
        "The SDK has configuration_update among the listed items; OpenAI's document is older.",
        values=("configuration_update",),
    ),
    Deviation(
        OPENAI,
        "(first|last)_id",
        "An empty list has no first and no last id: null; the document and the SDK have no word for it.",
        values=(None,),
    ),
    Deviation(
        OPEN,
        r".*\b(item|output\[\]|tools\[\]|tool_choice|annotation|annotations\[\])\.type",
        "Open Responses has few types of items, tools, choices and annotations; all others are as OpenAI has them.",
    ),
    Deviation(
        OPEN,
        RESPONSE + r"text\.format\.schema",
        "The Open Responses document allows only null for `text.format.schema`; OpenAI echoes the schema.",
    ),
    Deviation(
        OPEN,
        RESPONSE + r"text\.format",
        "OpenAI has `text.format.description` only where one was given, and never null; Open Responses requires the member.",
        message='"description" is a required property',
    ),
    Deviation(
        OPEN,
        r"error\.code",
        "OpenAI has null for an error without a code; on a WebSocket, Open Responses has no null.",
        values=(None,),
    ),
    Deviation(
        OPENAI,
        r"(data\[\]\.)?purpose",
        "Files are uploaded for evals, too; the file object of the document and of the SDK has no such purpose.",
        values=("evals",),
    ),
    Deviation(
        OPENAI,
        RESPONSE + "user",
        "OpenAI sends null where the request has no user; the document has no null.",
        values=(None,),
    ),
    Deviation(
        OPENAI,
        r"item|" + RESPONSE + r"output\[\]",
        "OpenAI adds the item of an image without a result; the document requires the member.",
        message='"result" is a required property',
        member="status",
        values=("in_progress",),
    ),
)


@dataclass(frozen=True)
class MemberDeviation:
    """A difference from what OpenAI's servers send (`members.py`)."""

    # "null", "missing" or "extra".
    kind: str
    # Each matches the whole name.
    object: str
    members: str
    reason: str

    def covers(self, kind: str, object: str, member: str) -> bool:
        return self.kind == kind and bool(re.fullmatch(self.object, object) and re.fullmatch(self.members, member))


ENDED = " in (done|response)"
MEMBER_DEVIATIONS: tuple[MemberDeviation, ...] = (
    MemberDeviation("extra", "response", "antiphon_notices", "What was changed or left out; OpenAI has nothing like it."),
    MemberDeviation(
        "extra", "response", "output_text", "The text as a whole, for clients that are no SDK. SDKs make it themselves."
    ),
    MemberDeviation("extra", "response", "conversation", "Declared by the document; no recorded request had one."),
    MemberDeviation(
        "null", r"response\.reasoning", "effort", "The request has none; recorded models have a default of their own."
    ),
    MemberDeviation(
        "missing", r"response\..*\.delta", "obfuscation", "Sent where `stream_options.include_obfuscation` asks for it."
    ),
    MemberDeviation("extra", r"response\.function_call_arguments\.done", "name", "Required by the document."),
    MemberDeviation("extra", "reasoning in .*", "status", "Declared by the document."),
    MemberDeviation(
        "null", "code_interpreter_call" + ENDED, "outputs", "The request does not include them; recorded requests did."
    ),
    MemberDeviation("extra", "web_search_call in added", "action", "Required by the document and by the SDK's types."),
    MemberDeviation("extra", "search" + ENDED, "queries", "Declared by the document."),
    MemberDeviation("missing", "search" + ENDED, "sources", "The request does not include them; recorded requests did."),
    MemberDeviation("extra", "web_search_call" + ENDED, "results", "Where the request includes them; no recorded request did."),
    MemberDeviation("null", "mcp_call" + ENDED, "output", "The call failed; no recorded call did."),
    MemberDeviation(
        "extra", "mcp_list_tools" + ENDED, "error", "The server could not be asked; recorded servers all answered."
    ),
    MemberDeviation(
        "missing", r"mcp_list_tools\.tools in .*", "description", "The server has none. Some clients accept no null."
    ),
    MemberDeviation("extra", r"mcp_list_tools\.tools\.annotations in .*", ".*", "The server's own annotations."),
    MemberDeviation("null", "image_generation_call" + ENDED, "result", "There is no image; `error` says why."),
    MemberDeviation("extra", "image_generation_call" + ENDED, "error", "Why there is no image; no recorded call failed."),
    MemberDeviation("extra", "image_generation_call" + ENDED, "action", "Declared by the document."),
    MemberDeviation(
        "missing",
        "image_generation_call" + ENDED,
        "background|output_format|quality|revised_prompt|size",
        "There is no image, or the tool that made it does not say.",
    ),
    MemberDeviation("extra", "exec" + ENDED, "timeout_ms|user", "Declared by the document, and written by the model."),
    MemberDeviation("null", "function in .*", "description|parameters|strict", "The tool that was found has none."),
    MemberDeviation("null", "invalid_request_error", "param", "The error is about no field, or about several."),
    MemberDeviation("extra", "error", "status", "A WebSocket's own form of an error."),
    MemberDeviation("missing", "error", "sequence_number", "A WebSocket's own form of an error."),
)
