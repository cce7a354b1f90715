"""A table with one converter per type of input item.

converted: message, reasoning, agent_message, compaction; calls and outputs of every tool that the client runs; calls of MCP
tools, with their results; a call that was not approved.
resolved before (`core.references`): item_reference, and reasoning or image_generation_call that is only an id.
converted to a call and a short result: web_search_call, file_search_call, code_interpreter_call, image_generation_call.
Converted to a short note in the text: what other tools of servers did.
offered: the tools of additional_tools and of a tool_search_output, like those in the request's `tools`; those of an
mcp_list_tools if its server is there.
dropped, with a notice: items that mean nothing to an engine, and every type that is not listed.
rejected: an item with neither a type nor a role; a malformed item of a listed type. In a stored history, which nobody can
correct, these are dropped with a notice.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
from msgspec import structs

from antiphon.core.checks.work import digest_of
from antiphon.core.hosted.code_interpreter import KIND as CODE_INTERPRETER
from antiphon.core.hosted.code_interpreter import PYTHON, code_call_id, code_to_arguments, outputs_to_text
from antiphon.core.hosted.file_search import KIND as FILE_SEARCH
from antiphon.core.hosted.file_search import (
    queries_of,
    queries_to_arguments,
    rows_to_results,
    search_call_id,
)
from antiphon.core.hosted.image_generation import KIND as IMAGE_GENERATION
from antiphon.core.hosted.image_generation import (
    MADE,
    image_call_id,
    prompt_of,
    prompt_to_arguments,
)
from antiphon.core.hosted.mcp.errors import error_to_text
from antiphon.core.hosted.search_results import shortened, without_own_marks
from antiphon.core.hosted.shown_results import MEMBER as SHOWN_RESULT
from antiphon.core.hosted.shown_results import shown_result
from antiphon.core.hosted.web_search import KIND as WEB_SEARCH
from antiphon.core.hosted.web_search import action_to_arguments
from antiphon.core.prompt.content_parts import content_to_parts, parts_to_text
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.protocols.responses.item_paths import is_beside, is_stored, item_path, item_paths
from antiphon.core.protocols.responses.read import convert
from antiphon.core.protocols.responses.references import (
    STAND_INS,
    stands_for,
    unresolved_to_notice,
    whole_ids,
)
from antiphon.core.toolbox.built_in import ordered_outputs
from antiphon.core.toolbox.prompt_texts import NOT_APPROVED, REASON
from antiphon.core.toolbox.tools import SERVER_SEARCH, AsCalled, ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.partial_json import arguments_to_text
from antiphon.sealing import text_to_compacted
from antiphon.wire.hosted_items import McpApprovalRequest
from antiphon.wire.input_items import (
    InputAgentMessage,
    InputApprovalResponse,
    InputCallOutput,
    InputCompaction,
    InputCustomCall,
    InputFunctionCall,
    InputMcpCall,
    InputMcpList,
    InputMessage,
    InputReasoning,
)

Item = dict[str, Any]
Converter = Callable[[ChatDraft, Item, str], None]

LONGEST_NOTE = 2000
# One long word of base64 is not written by a person or a model.
CIPHERTEXT = re.compile(r"[A-Za-z0-9+/=_-]{64,}")

COMPACTED = "The earlier part of this conversation was compacted to save room. This is the hand-over summary of it:"
COMPACT = """\
The conversation is about to be cut off here, and somebody who has seen none of it will go on with the work. Write the hand-over
for them. Say, in this order and as briefly as completeness allows: what the user wants, in their own words where these matter;
where the work is done, such as the working directory; what has been done, with the files, commands, names and numbers that
count; what was decided and why, and what was ruled out; what the state is right now; and what has to be done next. Write only
the hand-over, and do not call any tool."""
SEARCH_FAILED = "(the call failed)"
SEARCH_NOT_SHOWN = "(the result is not shown again)"
# Characters of what a search of files found, where the item has it.
LONGEST_PASSAGES = 8000
CODE_NOT_SHOWN = "(the output is not shown again)"
SEARCH_SOURCES = "(the results are not shown again, only their addresses)"
# Members that mean nothing to a model, or are as large as an image.
NOT_IN_NOTES = frozenset(
    {"type", "id", "status", "call_id", "encrypted_content", "result", "created_by", "caller", "container_id", "execution"}
    | {SHOWN_RESULT}
)


# ---- converted -------------------------------------------------------------------------------------------------------


def message_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    message = convert(item, InputMessage, where)
    content = message.content
    if isinstance(content, str):
        parts: list[Item] = [{"type": "text", "text": content}]
    else:
        parts = content_to_parts(content, f"{where}.content", draft.read_document)
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


def reasoning_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """Its text is in `content`, or sealed; the summary is the next best source."""
    reasoning = convert(item, InputReasoning, where)
    content = parts_to_text(content_to_parts(reasoning.content or [], f"{where}.content", draft.read_document))
    sealed = draft.open_sealed(reasoning.encrypted_content) if reasoning.encrypted_content else ""
    if sealed is None:
        draft.notice("sealed reasoning of another server was ignored: it cannot be opened here")
    summary = parts_to_text(content_to_parts(reasoning.summary or [], f"{where}.summary", draft.read_document))
    draft.reasoning(content or sealed or summary)


def function_call_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    call = convert(item, InputFunctionCall, where)
    arguments = call.arguments if isinstance(call.arguments, str) else arguments_to_text(call.arguments)
    draft.call(call.call_id, ToolIdentity("function", call.name, call.namespace), arguments)


def needs_its_call(item: Item) -> bool:
    """An output whose call must be known."""
    return CONVERTERS.get(item_kind(item) or "") is call_output_to_chat and item.get("call_id") is not None


def call_output_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    output = convert(item, InputCallOutput, where)
    if output.call_id is not None and isinstance(output.output, str):
        draft.result(output.call_id, [output.output], [], where)
        return
    value = [output.output] if isinstance(output.output, dict) else output.output or ""
    parts = content_to_parts(value, f"{where}.output", draft.read_document)
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
    draft.call(call.call_id, ToolIdentity("custom", call.name, call.namespace), _json({"input": call.input}))


# ---- MCP ---------------------------------------------------------------------------------------------------------------


def mcp_list_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """No message: its tools are offered, if its server is among the tools."""
    convert(item, InputMcpList, where)


def mcp_call_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """A call and its result in one item. One that did not come to an end has none."""
    call = convert(item, InputMcpCall, where)
    draft.call(call.id, ToolIdentity("mcp", call.name, call.server_label), arguments_to_text(call.arguments))
    text = error_to_text(call.error) if call.error else call.output
    if text is not None:
        draft.output(call.id, [{"type": "text", "text": text}], where)


def approval_request_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """No message: what was approved is a call of its own."""
    draft.approval_requests[convert(item, McpApprovalRequest, where).id] = item


def approval_response_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The model learns only of a call that was not approved."""
    response = convert(item, InputApprovalResponse, where)
    request = draft.approval_requests.get(response.approval_request_id)
    if response.approve or request is None:
        return
    native = ToolIdentity("mcp", request["name"], request["server_label"])
    draft.call(response.approval_request_id, native, request["arguments"])
    text = f"{NOT_APPROVED} {REASON.format(reason=response.reason)}" if response.reason else NOT_APPROVED
    draft.output(response.approval_request_id, [{"type": "text", "text": text}], where)


def agent_message_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    message = convert(item, InputAgentMessage, where)
    content = message.content
    if isinstance(content, list):
        content = [part for given in content for part in _readable(draft, given, where)]
    parts = content_to_parts(content, f"{where}.content", draft.read_document)
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


# ---- other tools, notes and compactions --------------------------------------------------------------------------------


def call_as_function(kind: str, member: str, without: str = "") -> Converter:
    """A call of a tool that is not a function: the engine sees a function call, with that member as its arguments. Without a
    call_id the client did not run it, and it is a note. `without`: what the model has not written."""

    def to_chat(draft: ChatDraft, item: Item, where: str) -> None:
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            note_to_chat(draft, item, where)
            return
        given = item.get(member) or {}
        if isinstance(given, dict):
            given = _json({name: value for name, value in given.items() if name != without and value not in (None, {})})
        draft.call(call_id, ToolIdentity(kind, kind), given if isinstance(given, str) else _json(given))

    return to_chat


def output_as_result(member: str, otherwise: str = "", order: Callable[[Any], Any] = lambda value: value) -> Converter:
    """`otherwise`: the member that is sent if there is no such one. `order`: how its value is written."""

    def to_chat(draft: ChatDraft, item: Item, where: str) -> None:
        value = item.get(member) if item.get(member) is not None else item.get(otherwise, "")
        text = value if isinstance(value, str) else _json(order(value))
        call_id = item.get("call_id") or item.get("id")
        if isinstance(call_id, str) and draft.has_call(call_id):
            draft.output(call_id, [{"type": "text", "text": text}], where)
        else:
            draft.user([{"type": "text", "text": f"[{item['type']}: {text[:LONGEST_NOTE]}]"}])

    return to_chat


def web_search_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The call as the model made it. What was found is long, and often no longer true: only the sources are shown again."""
    action = item.get("action")
    called = action_to_arguments(action) if isinstance(action, dict) else None
    if called is None:
        note_to_chat(draft, item, where)
        return
    name, arguments = called
    # Not the item's id, which it may get only when it is stored: the prompt stays the same.
    call_id = f"ws_{digest_of(_json([name, arguments]).encode()).hex()[:16]}"
    draft.call(call_id, ToolIdentity(WEB_SEARCH, name), _json(arguments))
    draft.output(call_id, [{"type": "text", "text": _search_to_words(item)}], where)


def _search_to_words(item: Item) -> str:
    if item.get("status") == "failed":
        return SEARCH_FAILED
    sources = item["action"].get("sources")
    given = (each.get("url") for each in sources if isinstance(each, dict)) if isinstance(sources, list) else ()
    urls = [url for url in given if isinstance(url, str)]
    return "\n".join([SEARCH_SOURCES, *urls])[:LONGEST_NOTE] if urls else SEARCH_NOT_SHOWN


def file_search_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The call as the model made it, and what it read of it. An item that was not stored here may have the passages: they are
    shown without the numbers to cite by, which are those of another response."""
    queries = queries_of({"queries": item.get("queries")})
    if not queries:
        note_to_chat(draft, item, where)
        return
    arguments = queries_to_arguments(queries)
    call_id = search_call_id(arguments)
    draft.call(call_id, ToolIdentity(FILE_SEARCH, FILE_SEARCH), arguments)
    draft.output(call_id, [{"type": "text", "text": _passages_to_words(item)}], where)


def _passages_to_words(item: Item) -> str:
    if (shown := shown_result(item)) is not None:
        return shown.text
    if item.get("status") == "failed":
        return SEARCH_FAILED
    texts: list[str] = []
    room = LONGEST_PASSAGES
    for each in rows_to_results(item.get("results")):
        text = without_own_marks(structs.replace(each, text=shortened(each.text, room))).shown_text
        texts.append(f"{each.heading}:\n{text}" if each.heading else text)
        room -= len(each.text)
        if room <= 0:
            break
    return "\n\n".join(texts) or SEARCH_NOT_SHOWN


def code_interpreter_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The call as the model made it, and what it read of it; or what it printed, if the item has that."""
    code = item.get("code")
    if not isinstance(code, str):
        note_to_chat(draft, item, where)
        return
    call_id = code_call_id(code)
    draft.call(call_id, ToolIdentity(CODE_INTERPRETER, PYTHON), code_to_arguments(code))
    draft.output(call_id, [{"type": "text", "text": _code_to_words(item)}], where)


def _code_to_words(item: Item) -> str:
    if (shown := shown_result(item)) is not None:
        return shown.text
    outputs = item.get("outputs")
    if isinstance(outputs, list) and outputs:
        return outputs_to_text(outputs)
    return SEARCH_FAILED if item.get("status") == "failed" else CODE_NOT_SHOWN


def image_generation_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The call as the model made it. The image is not shown to it again."""
    prompt = prompt_of({"prompt": item.get("revised_prompt")})
    if not prompt:
        note_to_chat(draft, item, where)
        return
    call_id = image_call_id(prompt)
    draft.call(call_id, ToolIdentity(IMAGE_GENERATION, IMAGE_GENERATION), prompt_to_arguments(prompt))
    draft.output(call_id, [{"type": "text", "text": _image_to_words(item)}], where)


def _image_to_words(item: Item) -> str:
    if item.get("status") in (None, "completed"):
        return MADE
    error = item.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else SEARCH_FAILED


def note_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """What a tool of another server did, as text of the assistant."""
    rest = {member: value for member, value in item.items() if member not in NOT_IN_NOTES and value not in (None, [], {})}
    draft.assistant(f"[{item['type']}: {_json(rest)[:LONGEST_NOTE]}]")


def compaction_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    """The summary, and then what was kept word for word."""
    sealed = convert(item, InputCompaction, where).encrypted_content
    text = draft.open_sealed(sealed) if sealed else None
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
            CONVERTERS.get(item_kind(kept) or "", dropped)(draft, kept, where)


def compaction_trigger_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    draft.user([{"type": "text", "text": COMPACT}])


# ---- no message ------------------------------------------------------------------------------------------------------


def dropped(draft: ChatDraft, item: Item, where: str) -> None:
    draft.notice(f"{where}: {item['type']} was left out")


def only_tools(draft: ChatDraft, item: Item, where: str) -> None:
    """No message: `tools_in_items` finds the tools, which are offered like those in `tools`."""
    _tools_of(item, where)


def tool_search_call_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    if not _is_of_server(item):
        _client_search(draft, item, where)
        return
    draft.search(SERVER_SEARCH, arguments_to_text(item.get("arguments")))


def tool_search_output_to_chat(draft: ChatDraft, item: Item, where: str) -> None:
    tools = _tools_of(item, where)
    if _is_of_server(item):
        draft.search_output(draft.found_words(tools), where)
    else:
        _found_tools(draft, item, where)


def _is_of_server(item: Item) -> bool:
    """The server that made the response ran the search, so nobody needs a call_id."""
    return not isinstance(item.get("call_id"), str)


_client_search = call_as_function("tool_search", "arguments")
_found_tools = output_as_result("tools")


CONVERTERS: dict[str, Converter] = {
    "message": message_to_chat,
    "reasoning": reasoning_to_chat,
    "function_call": function_call_to_chat,
    "function_call_output": call_output_to_chat,
    "custom_tool_call": custom_call_to_chat,
    "custom_tool_call_output": call_output_to_chat,
    "agent_message": agent_message_to_chat,
    "local_shell_call": call_as_function("local_shell", "action", without="type"),
    "local_shell_call_output": output_as_result("output"),
    "shell_call": call_as_function("shell", "action"),
    "shell_call_output": output_as_result("output", order=ordered_outputs),
    "apply_patch_call": call_as_function("apply_patch", "operation"),
    # The output of a patch may be only the status, whether it was applied.
    "apply_patch_call_output": output_as_result("output", otherwise="status"),
    "tool_search_call": tool_search_call_to_chat,
    "tool_search_output": tool_search_output_to_chat,
    "computer_call": note_to_chat,
    "computer_call_output": dropped,
    "web_search_call": web_search_to_chat,
    "file_search_call": file_search_to_chat,
    "code_interpreter_call": code_interpreter_to_chat,
    "image_generation_call": image_generation_to_chat,
    "mcp_list_tools": mcp_list_to_chat,
    "mcp_call": mcp_call_to_chat,
    "mcp_approval_request": approval_request_to_chat,
    "mcp_approval_response": approval_response_to_chat,
    "program": note_to_chat,
    "program_output": output_as_result("result"),
    "compaction": compaction_to_chat,
    "context_compaction": compaction_to_chat,
    "additional_tools": only_tools,
    "compaction_trigger": compaction_trigger_to_chat,
    "configuration_update": dropped,
}


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
    """`found_words`: what the model is told of tools that a search has found. `earlier`: how many of the items were stored
    before. `own`: the name of the list that the others came in."""
    draft = ChatDraft(as_called, open_sealed, documents.read, found_words)
    sent: set[str] | None = None
    for item, where in zip(items, item_paths(len(items), earlier, own), strict=True):
        kind = item.get("type")
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
            CONVERTERS.get(kind, dropped)(draft, item, where)
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
    for at, item in enumerate(items):
        if item.get("type") in ("additional_tools", "tool_search_output"):
            where = item_path(at, earlier, own)
            try:
                tools = _tools_of(item, where)
            except InvalidRequest:
                if not is_stored(where):
                    raise
                # Its converter gives the notice.
                continue
            found += [(f"{where}.tools[{number}]", tool) for number, tool in enumerate(tools)]
    return found


def tools_of_search(tools: Sequence[Item]) -> list[tuple[str, Item]]:
    """The same for tools that the response itself has found."""
    return [(f"tool_search_output.tools[{number}]", tool) for number, tool in enumerate(tools)]


def _tools_of(item: Item, where: str) -> list[Item]:
    return convert(item.get("tools") or [], list[Item], f"{where}.tools")


def item_kind(item: Item) -> str | None:
    """`type` is optional on messages. None: it is missing, or no string."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if kind is None and "role" in item:
        return "message"
    return None


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
