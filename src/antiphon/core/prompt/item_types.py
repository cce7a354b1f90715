"""All types of items, a row each: the messages that an engine gets of an item, and the form in which it is stored.

converted: message, reasoning, agent_message, compaction; calls and outputs of every tool that the client runs; calls of MCP
tools, with their results; a call that was not approved.
resolved before (`core.protocols.responses.references`): item_reference, and items that are only an id.
converted to a call and a short result: calls of tools that the gateway runs. `core.hosted.rows` has their rows.
Converted to a short note in the text: what other tools of servers did.
offered: the tools of additional_tools and of a tool_search_output, like those in the request's `tools`; those of an
mcp_list_tools if its server is there.
dropped, with a notice: items that mean nothing to an engine, and every type that is not listed.
rejected: an item with neither a type nor a role; a malformed item of a listed type. In a stored history, which nobody can
correct, these are dropped with a notice.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from antiphon.core.hosted.rows import HOSTED
from antiphon.core.hosted.tool_search import tools_of
from antiphon.core.items.call_forms import ApplyPatchForm, CustomForm, FunctionForm, LocalShellForm
from antiphon.core.items.item_type import (
    ItemType,
    call_as_function,
    complete,
    item_kind,
    keep_arguments,
    keep_tools,
    note_to_chat,
    output_as_result,
    to_json,
)
from antiphon.core.prompt.content_parts import TEXTS, content_to_parts, parts_to_text
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.protocols.responses.fields import types_of
from antiphon.core.protocols.responses.read import convert
from antiphon.core.protocols.responses.references import (
    STAND_INS,
    is_beside,
    is_stored,
    item_path,
    item_paths,
    stands_for,
    unresolved_to_notice,
    whole_ids,
)
from antiphon.core.toolbox.tools import AsCalled, ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.partial_json import arguments_to_text
from antiphon.patterns import late_pattern
from antiphon.sealing import text_to_compacted
from antiphon.wire.chat import Part
from antiphon.wire.hosted_items import ToolSearchOutput, type_of
from antiphon.wire.input_items import (
    WITH_TOOLS,
    CompactionTrigger,
    InputAgentMessage,
    InputCallOutput,
    InputCompaction,
    InputCustomCall,
    InputFunctionCall,
    InputMessage,
    InputReasoning,
    Item,
)

# One long word of base64 is not written by a person or a model.
CIPHERTEXT = late_pattern(r"[A-Za-z0-9+/=_-]{64,}")

COMPACTED = "The earlier part of this conversation was compacted to save room. This is the hand-over summary of it:"
COMPACT = """\
The conversation is about to be cut off here, and somebody who has seen none of it will go on with the work. Write the hand-over
for them. Say, in this order and as briefly as completeness allows: what the user wants, in their own words where these matter;
where the work is done, such as the working directory; what has been done, with the files, commands, names and numbers that
count; what was decided and why, and what was ruled out; what the state is right now; and what has to be done next. Write only
the hand-over, and do not call any tool."""

PLAIN_TEXT = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
# Part type → the same for the parts of a content.
PART_MEMBERS: dict[str, Mapping[str, Any]] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
}


# ---- messages --------------------------------------------------------------------------------------------------------


def message_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    message = convert(item, InputMessage, where)
    content = message.content
    if isinstance(content, str):
        parts: list[Item] = [{"type": "text", "text": content}]
    else:
        parts = content_to_parts(content, f"{where}.content", draft.documents)
    if message.role == "user":
        draft.user(parts)
        return
    if any(part["type"] != "text" for part in parts):
        draft.notice(f"{where}: only the text of a {message.role} message was sent")
    text = parts_to_text(parts)
    if message.role == "assistant":
        draft.assistant(text)
    else:
        draft.system(text)


def plain_message_to_chat(draft: ChatDraft, item: Item) -> bool:
    """Of a message whose content is one text, as nearly all are, the same as `message_to_chat`: nothing can be wrong with it,
    and a long history has no path and no Struct for each. False: it is another one, and nothing was done."""
    text, role = item.get("content"), item.get("role")
    if type(text) is list and len(text) == 1 and type(part := text[0]) is dict and part.get("type") in TEXTS:
        text = part.get("text")
    if type(text) is not str or ("status" in item and item["status"] in REPORT_FAILURE):
        return False
    if role == "user":
        draft.user([{"type": "text", "text": text}])
    elif role == "assistant":
        draft.joins_answer = "id" in item and is_beside(item["id"])
        draft.assistant(text)
    elif role == "system" or role == "developer":
        draft.system(text)
    else:
        return False
    return True


def reasoning_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """Its text is in `content`, or sealed; the summary is the next best source."""
    reasoning = convert(item, InputReasoning, where)
    content = parts_to_text(content_to_parts(reasoning.content or [], f"{where}.content", draft.documents))
    sealed = draft.open_sealed(reasoning.encrypted_content) if reasoning.encrypted_content else ""
    if sealed is None:
        draft.notice("sealed reasoning of another server was ignored: it cannot be opened here")
    summary = parts_to_text(content_to_parts(reasoning.summary or [], f"{where}.summary", draft.documents))
    draft.reasoning(content or sealed or summary)


def function_call_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    call = convert(item, InputFunctionCall, where)
    arguments = call.arguments if isinstance(call.arguments, str) else arguments_to_text(call.arguments)
    draft.call(call.call_id, ToolIdentity("function", call.name, call.namespace), arguments)


def call_output_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    output = convert(item, InputCallOutput, where)
    if output.call_id is not None and isinstance(output.output, str):
        draft.result(output.call_id, [output.output], [], where)
        return
    value = [output.output] if isinstance(output.output, dict) else output.output or ""
    parts = content_to_parts(value, f"{where}.output", draft.documents)
    if output.call_id is not None:
        draft.output(output.call_id, parts, where)
    elif output.name:
        # What a client reports by itself, in the name of a tool: no model has called it.
        draft.user([{"type": "text", "text": f"Message from {output.name}:"}, *parts])
    else:
        problem = f"`{where}` needs the `call_id` of its call, or the `name` of the tool that reports it."
        raise InvalidRequest(problem, param=f"{where}.call_id", code="missing_required_parameter")


def custom_call_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    call = convert(item, InputCustomCall, where)
    draft.call(call.call_id, ToolIdentity("custom", call.name, call.namespace), to_json({"input": call.input}))


def agent_message_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    message = convert(item, InputAgentMessage, where)
    content = message.content
    if isinstance(content, list):
        content = [part for given in content for part in _readable(draft, given, where)]
    parts = content_to_parts(content, f"{where}.content", draft.documents)
    draft.user([{"type": "text", "text": f"Message from {message.author}:"}, *parts])


def _readable(draft: ChatDraft, part: Item, where: str) -> list[Item]:
    """A part of an agent's message. OpenAI encrypts messages between agents; with Antiphon they are plain text."""
    if part.get("type") != "encrypted_content":
        return [part]
    text = str(part.get("encrypted_content") or "")
    if CIPHERTEXT.fullmatch(text):
        draft.notice(f"{where}: the encrypted part of an agent's message cannot be read here")
        return []
    return [{"type": "input_text", "text": text}]


# ---- compactions -----------------------------------------------------------------------------------------------------


def compaction_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The summary, and then what was kept word for word."""
    given = convert(item, InputCompaction, where)
    sealed = given.encrypted_content
    text = (draft.open_sealed(sealed) if sealed else None) or given.summary
    if text is None:
        draft.notice(f"{where}: a compaction of another server cannot be opened here")
        text = "(the summary cannot be read)"
    compacted = text_to_compacted(text)
    # A client that sends its instructions itself may have changed them.
    instructions = () if draft.has_instructions else compacted.kept.instructions
    draft.user([{"type": "text", "text": f"{COMPACTED}\n\n{compacted.summary}"}])
    for kept in (*instructions, *compacted.kept.items):
        # It was accepted once. The client cannot read it, and could not repair it.
        with suppress(InvalidRequest):
            ITEM_TYPES.get(item_kind(kept) or "", UNKNOWN).to_chat(draft, kept, where)


def compaction_trigger_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    trigger = convert(item, CompactionTrigger, where)
    words = (trigger.prompt or COMPACT, trigger.instructions or "")
    draft.user([{"type": "text", "text": "\n\n".join(filter(None, words))}])


# ---- no message ------------------------------------------------------------------------------------------------------


def dropped(draft: ChatDraft, item: Item, where: str) -> None:
    draft.notice(f"{where}: {item['type']} was left out")


def only_tools(draft: ChatDraft, item: Item, where: str) -> None:
    """No message: `tools_in_items` finds the tools, which are offered like those in `tools`."""
    tools_of(item, where)


# ---- as they are stored ----------------------------------------------------------------------------------------------


def keep_message(item: Item) -> None:
    text_type = "output_text" if item.get("role") == "assistant" else "input_text"
    content = item.get("content")
    parts = [{"type": text_type, "text": content}] if isinstance(content, str) else content
    item["content"] = _to_parts(parts, text_type)


def keep_reasoning(item: Item) -> None:
    content = item.get("content")
    if content is None:
        item.pop("content", None)
    elif isinstance(content, str):
        item["content"] = [{"type": "reasoning_text", "text": content}]
    else:
        item["content"] = _to_parts(content, "reasoning_text")
    item["summary"] = _to_parts(item.get("summary"), "summary_text")


def keep_output(item: Item) -> None:
    output = item.get("output")
    if not isinstance(output, str):
        item["output"] = _to_parts([output] if isinstance(output, dict) else output, "input_text")


def _to_parts(content: Any, text_type: str) -> Any:
    """`text_type`: the type that text has in this place."""
    if not isinstance(content, list):
        return content
    members = PART_MEMBERS.get(text_type)
    kept = []
    for part in content:
        if not isinstance(part, dict):
            kept.append(part)
        elif (kind := part.get("type")) not in PLAIN_TEXT:
            kept.append(_other_part(part))
        elif kind == text_type and members is None:
            # It is in this form already.
            kept.append(part)
        else:
            part = {**part, "type": text_type}
            # As `complete()` does, which would be a call more for every text.
            for name, default in members.items() if members is not None else ():
                if part.get(name) is None:
                    part[name] = default
            kept.append(part)
    return kept


def _other_part(part: Part) -> Part:
    kind = part.get("type")
    kept = {**part, "type": kind}
    if isinstance(kind, str) and (members := PART_MEMBERS.get(kind)) is not None:
        complete(kept, members)
    return kept


# ---- the rows --------------------------------------------------------------------------------------------------------

COMPLETED = {"status": "completed"}
# Of an item that is, or has, the output of a call.
REPORT_FAILURE = ("failed", "incomplete")
_REFERENCE = "is an item_reference. Only a request may refer to items: add the item itself."
_TRIGGER = "is a compaction_trigger. Only a request may ask for a compaction: send it in `input`."

# The items of messages, and of tools that clients run.
OF_CLIENTS = (
    ItemType("message", message_to_chat, "msg", COMPLETED, keep_message),
    ItemType("reasoning", reasoning_to_chat, "rs", {"summary": []}, keep_reasoning, continues_answer=True),
    ItemType("function_call", function_call_to_chat, FunctionForm.prefix, COMPLETED, keep_arguments, continues_answer=True),
    ItemType("function_call_output", call_output_to_chat, "fco", {"output": "", **COMPLETED}, keep_output, needs_call=True),
    ItemType("custom_tool_call", custom_call_to_chat, CustomForm.prefix, {"input": "", **COMPLETED}, continues_answer=True),
    ItemType("custom_tool_call_output", call_output_to_chat, "ctco", {"output": "", **COMPLETED}, keep_output, needs_call=True),
    ItemType("agent_message", agent_message_to_chat),
    ItemType(
        "local_shell_call",
        call_as_function(ToolIdentity("local_shell", "local_shell"), "action", without="type"),
        LocalShellForm.prefix,
        COMPLETED,
    ),
    ItemType("local_shell_call_output", output_as_result("output"), "lsho"),
    ItemType(
        "apply_patch_call",
        call_as_function(ToolIdentity("apply_patch", "apply_patch"), "operation"),
        ApplyPatchForm.prefix,
        COMPLETED,
    ),
    # The output of a patch may be only the status, whether it was applied.
    ItemType("apply_patch_call_output", output_as_result("output", otherwise="status"), "apco"),
    ItemType("computer_call", note_to_chat, "cu", {"pending_safety_checks": [], **COMPLETED}),
    ItemType("computer_call_output", dropped, "cuo", COMPLETED),
    ItemType("program", note_to_chat),
    ItemType("program_output", output_as_result("result"), members=COMPLETED),
    ItemType("compaction", compaction_to_chat, "cmp", {"encrypted_content": ""}),
    ItemType("context_compaction", compaction_to_chat),
    ItemType("additional_tools", only_tools, members={"role": "developer", "tools": []}, keep=keep_tools),
    ItemType("compaction_trigger", compaction_trigger_to_chat, only_in_requests=_TRIGGER),
    ItemType("item_reference", dropped, only_in_requests=_REFERENCE),
    ItemType("configuration_update", dropped),
)
ITEM_TYPES: dict[str, ItemType] = {row.type: row for row in (*OF_CLIENTS, *(row for tool in HOSTED for row in tool.items))}
# Every other type.
UNKNOWN = ItemType("", dropped)

# The types of items that the model writes when it goes on. A tuple: what is looked for may be anything that a client sent.
CONTINUE_ANSWERS = tuple(row.type for row in ITEM_TYPES.values() if row.continues_answer)
# Outputs that are rejected without their call. The converters of the others make notes of them.
NEED_A_CALL = frozenset(row.type for row in ITEM_TYPES.values() if row.needs_call)


# Where tools are that the response itself has found.
FOUND = type_of(ToolSearchOutput)


def needs_its_call(item: Item) -> bool:
    """An output whose call must be known."""
    return item_kind(item) in NEED_A_CALL and item.get("call_id") is not None


def items_to_draft(
    items: Sequence[Item],
    as_called: Callable[[ToolIdentity, str], AsCalled],
    open_sealed: Callable[[str], str | None],
    *,
    documents: Documents,
    found_words: Callable[[list[Item]], str] = lambda tools: "",
    earlier: int = 0,
    own: str = "input",
) -> ChatDraft:
    """`found_words`: what the model reads of tools that a search has found. `earlier`: how many of the items were stored
    before. `own`: the name of the list that the others came in."""
    draft = ChatDraft(as_called, open_sealed, documents, found_words)
    sent: set[str] | None = None
    # Made only if there is more than plain messages.
    paths: list[str] = []
    for at, item in enumerate(items):
        kind = item.get("type")
        if (kind == "message" or (kind is None and "role" in item)) and plain_message_to_chat(draft, item):
            continue
        paths = paths or item_paths(len(items), earlier, own)
        where = paths[at]
        has_own_type = isinstance(kind, str) and kind not in STAND_INS
        if not has_own_type and (id := stands_for(item)) is not None:
            sent = whole_ids(items) if sent is None else sent
            if id not in sent and (notice := unresolved_to_notice(item, where)) is not None:
                draft.notice(notice)
            continue
        try:
            kind = kind if has_own_type and kind else item_kind(item) or _refuse_untyped(item, where)
            # A converter that raises has not changed the draft.
            draft.joins_answer = "id" in item and is_beside(item["id"])
            ITEM_TYPES.get(kind, UNKNOWN).to_chat(draft, item, where)
            if item.get("status") in REPORT_FAILURE:
                draft.report_failure(item.get("call_id") or item.get("id"))
        except InvalidRequest as wrong:
            if not is_stored(where):
                raise
            draft.notice(f"{where} was left out: {wrong.message}")
    return draft


def _refuse_untyped(item: Item, where: str) -> NoReturn:
    code = "invalid_value" if item.get("type") == "" else "invalid_type" if "type" in item else "missing_required_parameter"
    problem = f"`{where}.type` must be a string that is not empty. Only a message, which has a `role`, may leave it out."
    raise InvalidRequest(problem, param=f"{where}.type", code=code)


def tools_in_items(items: Sequence[Item], *, earlier: int = 0, own: str = "input") -> list[tuple[str, Item]]:
    """The tools in input items, from `additional_tools` or a tool search; each with its path."""
    found: list[tuple[str, Item]] = []
    for at, item in enumerate(() if types_of(items).isdisjoint(WITH_TOOLS) else items):
        if item.get("type") in WITH_TOOLS:
            where = item_path(at, earlier, own)
            try:
                tools = tools_of(item, where)
            except InvalidRequest:
                if not is_stored(where):
                    raise
                # Its converter gives the notice.
                continue
            found += [(f"{where}.tools[{number}]", tool) for number, tool in enumerate(tools)]
    return found


def tools_of_search(tools: Sequence[Item]) -> list[tuple[str, Item]]:
    """The same for tools that the response itself has found."""
    return [(f"{FOUND}.tools[{number}]", tool) for number, tool in enumerate(tools)]
