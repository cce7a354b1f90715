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
        r".*\btype",
        "The tool of an extension in the tests.",
        values=("dice", "dice_call"),
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
)
