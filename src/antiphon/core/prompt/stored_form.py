"""Input items as they are stored and shown, and the check that lets them in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.input_items import (
    item_kind,
    items_to_draft,
    needs_its_call,
    tools_in_items,
)
from antiphon.core.protocols.responses.references import is_reference
from antiphon.core.toolbox.mcp_servers import tools_without_secrets
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.tools import plain_call
from antiphon.errors import InvalidRequest
from antiphon.partial_json import arguments_to_text

Item = dict[str, Any]
Part = dict[str, Any]

# Item type → the prefix of its ids.
PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "compaction": "cmp",
}
EXECUTION = {"execution": "client"}
# Item type → the members that the API shows of every stored item, and clients may leave out: a member that is missing or null
# gets this value. They must not change what an engine is sent: a history is the same prompt before and after it was stored.
MEMBERS: dict[str, Mapping[str, Any]] = {
    "message": {"status": "completed"},
    "reasoning": {"summary": []},
    "function_call": {"status": "completed"},
    "function_call_output": {"output": "", "status": "completed"},
    "custom_tool_call": {"input": "", "status": "completed"},
    "custom_tool_call_output": {"output": "", "status": "completed"},
    "tool_search_call": {"arguments": {}, "status": "completed"} | EXECUTION,
    "tool_search_output": {"status": "completed"} | EXECUTION,
    "additional_tools": {"role": "developer", "tools": []},
    "local_shell_call": {"status": "completed"},
    "shell_call": {"status": "completed", "environment": None},
    "shell_call_output": {"status": "completed", "max_output_length": None},
    "apply_patch_call": {"status": "completed"},
    "web_search_call": {"status": "completed"},
    "file_search_call": {"queries": [], "status": "completed"},
    "code_interpreter_call": {"container_id": "", "status": "completed"},
    "image_generation_call": {"status": "completed"},
    "computer_call": {"pending_safety_checks": [], "status": "completed"},
    "computer_call_output": {"status": "completed"},
    "program_output": {"status": "completed"},
    "compaction": {"encrypted_content": ""},
}
NO_MEMBERS: Mapping[str, Any] = {}
# The same for the action of a shell_call.
SHELL_ACTION = {"timeout_ms": None, "max_output_length": None}
# Item type → why it cannot be stored by itself.
ONLY_IN_REQUESTS = {
    "item_reference": "is an item_reference. Only a request may refer to items: add the item itself.",
    "compaction_trigger": "is a compaction_trigger. Only a request may ask for a compaction: send it in `input`.",
}
PLAIN_TEXT = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
# Part type → the same for the parts of a content.
PART_MEMBERS: dict[str, Mapping[str, Any]] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
}


# ---- on entry --------------------------------------------------------------------------------------------------------


def check_items(
    items: Sequence[Item], *, before: Sequence[Item] = (), where: str = "items", documents: Documents | None = None
) -> Sequence[str]:
    """Raises for items that cannot be continued, by the converters that read them later. `before`: the items that are stored
    before them. `where`: the name of their list. `documents`: gets the uploaded files that they name. Returns the notices
    about them."""
    for at, item in enumerate(items):
        kind = "item_reference" if is_reference(item) else item_kind(item)
        if (reason := ONLY_IN_REQUESTS.get(kind or "")) is not None:
            raise InvalidRequest(f"`{where}[{at}]` {reason}", param=f"{where}[{at}].type", code="invalid_value")
    together = [*before, *items]
    tools_to_box((), tools_in_items(together, earlier=len(before), own=where))
    draft = items_to_draft(
        together, plain_call, lambda sealed: "", documents=documents or Documents(), earlier=len(before), own=where
    )
    return [notice for notice in draft.notices if notice.startswith(f"{where}[")]


def needs_items_before(items: Sequence[Item]) -> bool:
    """Some of these items may belong to calls that are stored before them."""
    return any(needs_its_call(item) for item in items)


# ---- as they are stored ----------------------------------------------------------------------------------------------


def items_to_stored_form(items: Sequence[Item], new_id: Callable[[str], str]) -> list[Item]:
    """Input as it is stored and returned: every item has an id, a type and all members that the API shows of it."""
    return [_to_stored_form(item, new_id) for item in items]


def _to_stored_form(item: Item, new_id: Callable[[str], str]) -> Item:
    kind = item.get("type")
    if not isinstance(kind, str) or not kind:
        kind = item_kind(item) or "unknown"
    # The two come first, whatever the item has; their values follow.
    kept: Item = {"id": None, "type": None, **item}
    kept["type"] = kind
    if not isinstance(id := kept["id"], str) or not id:
        kept["id"] = new_id(PREFIXES.get(kind, "item"))
    if (keep := CONTENTS.get(kind)) is not None:
        keep(kept)
    # As `_complete()` does, which would be a call more for every item.
    for name, default in MEMBERS.get(kind, NO_MEMBERS).items():
        if kept.get(name) is None:
            kept[name] = default
    return kept


def _complete(value: Item, members: Mapping[str, Any]) -> None:
    for name, default in members.items():
        if value.get(name) is None:
            value[name] = default


# Each replaces members of a shallow copy of the item. None of them raises: an item that was not read, because a compaction
# replaces it, is stored, too.


def _keep_message(item: Item) -> None:
    text_type = "output_text" if item.get("role") == "assistant" else "input_text"
    content = item.get("content")
    parts = [{"type": text_type, "text": content}] if isinstance(content, str) else content
    item["content"] = _to_parts(parts, text_type)


def _keep_reasoning(item: Item) -> None:
    content = item.get("content")
    if content is None:
        item.pop("content", None)
    elif isinstance(content, str):
        item["content"] = [{"type": "reasoning_text", "text": content}]
    else:
        item["content"] = _to_parts(content, "reasoning_text")
    item["summary"] = _to_parts(item.get("summary"), "summary_text")


def _keep_call(item: Item) -> None:
    if not isinstance(given := item.get("arguments"), str):
        item["arguments"] = arguments_to_text(given)


def _keep_shell_call(item: Item) -> None:
    # Without a call_id it is a note for the engine, which shows all members.
    if isinstance(item.get("action"), dict) and isinstance(item.get("call_id"), str):
        item["action"] = action = {**item["action"]}
        _complete(action, SHELL_ACTION)


def _keep_output(item: Item) -> None:
    output = item.get("output")
    if not isinstance(output, str):
        item["output"] = _to_parts([output] if isinstance(output, dict) else output, "input_text")


def _keep_tools(item: Item) -> None:
    item["tools"] = tools_without_secrets(item.get("tools"))


CONTENTS: dict[str, Callable[[Item], None]] = {
    "message": _keep_message,
    "reasoning": _keep_reasoning,
    "function_call": _keep_call,
    "function_call_output": _keep_output,
    "custom_tool_call_output": _keep_output,
    "shell_call": _keep_shell_call,
    "mcp_call": _keep_call,
    "mcp_approval_request": _keep_call,
    "additional_tools": _keep_tools,
    "tool_search_output": _keep_tools,
}


def _to_parts(content: Any, text_type: str) -> Any:
    """`text_type`: the type that text has in this place."""
    if not isinstance(content, list):
        return content
    return [_part_to_stored_form(part, text_type) if isinstance(part, dict) else part for part in content]


def _part_to_stored_form(part: Part, text_type: str) -> Part:
    kind = part.get("type")
    kind = text_type if kind in PLAIN_TEXT else kind
    kept = {**part, "type": kind}
    if isinstance(kind, str) and (members := PART_MEMBERS.get(kind)) is not None:
        _complete(kept, members)
    return kept
