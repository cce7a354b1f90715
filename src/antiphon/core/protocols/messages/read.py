"""A request of Anthropic Messages → a request of the Responses API."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.messages.blocks import ItemReader
from antiphon.core.protocols.messages.context_edits import CLEAR_TOOL_USES, COMPACT, check_edits, clear_tool_uses
from antiphon.core.protocols.messages.facts import MessageFacts
from antiphon.core.protocols.messages.places import Place, Places
from antiphon.core.protocols.messages.tool_changes import current_tools
from antiphon.core.protocols.messages.tools import Run, ToolReader, choice_to_responses
from antiphon.core.protocols.responses.fields import SEALED_REASONING, RequestLimits, check_request
from antiphon.core.protocols.responses.read import convert, read_struct
from antiphon.errors import UNREADABLE, InvalidRequest, NotFound
from antiphon.wire.input_items import Item
from antiphon.wire.messages import (
    Block,
    ContainerChoice,
    ContextEdit,
    CreateMessage,
    InputMessage,
    OutputConfig,
    RequestMetadata,
    TextInput,
    Thinking,
    Thread,
    ToolChoice,
)
from antiphon.wire.responses import Beyond, ContextManagement, CreateResponse, ReasoningOptions, TextFormat, TextOptions

# Claude Code's first block of `system`. It has another hash in each conversation: no two prompts would begin alike.
BILLING = "x-anthropic-billing-header:"
# Which conversation a request of Claude Code belongs to, and which of its agents.
SESSION, AGENT = "x-claude-code-session-id", "x-claude-code-agent-id"
# Of a conversation's key.
LONGEST_KEY = 64

# The version of the API in which answers show which tools the servers of the request have.
BETAS, SHOWS_LISTINGS = "anthropic-beta", "mcp-client-2026-09-15"
# Headers about the accounts of Anthropic's servers.
OF_ACCOUNTS = ("anthropic-user-profile-id", "anthropic-workspace-id")

# The fields that are objects, and whose members are checked.
OBJECTS: Mapping[str, type[Struct]] = {
    "thinking": Thinking,
    "output_config": OutputConfig,
    "tool_choice": ToolChoice,
    "metadata": RequestMetadata,
    "thread": Thread,
    "container": ContainerChoice,
}
# The fields that are accepted, and change nothing here.
DROPPED = (
    *("service_tier", "speed", "inference_geo", "output_config.task_budget", "thinking.block_binding"),
    *("billing_policy", "diagnostics", "fallbacks", "fallback_credit_token"),
)
# Values that are the same as nothing.
NOTHING = ("standard",)
WITHOUT_EFFECT = "field {name} was left out: it has no effect here"
NO_THINKING = "output_config.effort has no effect without thinking"
# Anthropic's SDKs send the whole conversation again after an error of this code; their tool runners begin a thread unasked.
NO_THREAD = "thread_not_found"
NO_SKILLS = "container.skills were left out: there are no skills here"
NOT_KEPT = "thread: the conversation is not kept here"
NOT_BOTH = "`compaction` cannot be used together with `context_management`."
NOT_CITED = "Citations cannot be used together with `output_config.format`: an answer that follows a schema has none."
# The effort of a thought, where the request names none.
EFFORT, NO_EFFORT = "medium", "none"
# The names that the Responses API does not have, and the nearest that it has.
EFFORTS = {"max": "xhigh"}
# Of a threshold for a compaction, in tokens.
LEAST_THRESHOLD = 1000


def body_to_request(body: bytes, headers: Mapping[str, str], limits: RequestLimits) -> ReadRequest:
    given, unknown = read_struct(body, CreateMessage, limits, OBJECTS)
    if given.thread is not None and given.thread.type == "continue":
        problem = "Conversations are not kept for this protocol. Send the whole one again."
        raise NotFound(problem, param="thread.previous_message_id", code=NO_THREAD)
    _check_edits(given)
    reader = _read_messages(given)
    tools = ToolReader(given.mcp_servers or [], Run(_container(given).id, reader.uploads))
    for tool, where in current_tools(given.tools or [], given.messages):
        tools.read(tool, where)
    tools.finish()
    tools.define_found(reader.items)
    # Lists of tools make no message.
    items, places = [*tools.lists, *reader.items], [*(Place("tools") for _ in tools.lists), *reader.places]
    facts = MessageFacts(
        Places(places, tools.places, [*reader.uploads.values()]),
        hides_thoughts=given.thinking is not None and given.thinking.display == "omitted",
        toolsets=frozenset(tools.toolsets),
        search=tools.search_name,
        edits=None if given.context_management is None else [],
        shows_listings=SHOWS_LISTINGS in headers.get(BETAS, ""),
        only_reads=given.max_tokens == 0,
    )
    system = _system(given.system)
    request = _request(given, _cleared(given, items, system or "", facts), system, tools, headers)
    try:
        check_request(request, limits)
    except InvalidRequest as wrong:
        wrong.reword(facts.places.in_own_words)
        raise
    if reader.documents.cites and request.text is not None:
        raise InvalidRequest(NOT_CITED, param="output_config.format", code="invalid_value")
    return ReadRequest(request, unknown, [*reader.notices, *tools.notices, *_notices(given, headers)], facts=facts)


def _request(
    given: CreateMessage,
    items: list[Item],
    system: str | None,
    tools: ToolReader,
    headers: Mapping[str, str],
) -> CreateResponse:
    choice = given.tool_choice
    return CreateResponse(
        model=given.model,
        input=[*items, *_trigger(given)],
        instructions=system,
        tools=tools.tools or None,
        tool_choice=None if choice is None else choice_to_responses(choice, tools.hosted),
        # A thought is restored from its seal, also if the answer is stored.
        include=[SEALED_REASONING, *tools.include],
        max_tool_calls=tools.most_calls,
        parallel_tool_calls=False if choice is not None and choice.disable_parallel_tool_use else None,
        text=_format(given),
        reasoning=ReasoningOptions(effort=_effort(given)),
        max_output_tokens=None if given.max_tokens is None else max(1, given.max_tokens),
        temperature=given.temperature,
        top_p=given.top_p,
        prompt_cache_key=_conversation_key(given.metadata, headers),
        context_management=_compaction(given),
        store=False,
        stream=given.stream,
        beyond=_beyond(given),
    )


# ---- the conversation ------------------------------------------------------------------------------------------------


def _read_messages(given: CreateMessage) -> ItemReader:
    reader = ItemReader()
    last_user = max((at for at, message in enumerate(given.messages) if message.get("role") == "user"), default=-1)
    for at, message in enumerate(given.messages):
        is_over = message.get("clear_at") == "next_user_message" and at < last_user
        reader.read(message, f"messages[{at}]", is_shown=not is_over)
    reader.finish()
    if not reader.items:
        raise InvalidRequest("`messages` must have a message with content.", param="messages", code="empty_array")
    return reader


def _system(system: str | list[Block] | None) -> str | None:
    if system is None:
        return None
    blocks = [{"text": system}] if isinstance(system, str) else system
    texts = (convert(block, TextInput, f"system[{at}]").text for at, block in enumerate(blocks))
    return "\n\n".join(text for text in texts if text and not text.startswith(BILLING)) or None


def _conversation_key(metadata: RequestMetadata | None, headers: Mapping[str, str]) -> str | None:
    """By its headers, or by the session in `metadata.user_id`. Each agent of a session has a conversation of its own."""
    session = headers.get(SESSION) or _session(metadata.user_id if metadata is not None else None)
    if not session:
        return None
    return "/".join(filter(None, (session, headers.get(AGENT))))[:LONGEST_KEY]


def _session(user_id: str | None) -> str | None:
    try:
        value: Any = msgspec.json.decode(user_id or "")
    except UNREADABLE:
        # It names a user, who may have many conversations.
        return None
    session = value.get("session_id") if isinstance(value, dict) else None
    return session if isinstance(session, str) else None


def _container(given: CreateMessage) -> ContainerChoice:
    named = given.container
    return ContainerChoice(named) if isinstance(named, str) else named or ContainerChoice()


# ---- what is cut out of it -------------------------------------------------------------------------------------------


def _check_edits(given: CreateMessage) -> None:
    if given.context_management is None:
        return
    if given.compaction is not None:
        raise InvalidRequest(NOT_BOTH, param="compaction", code="mutually_exclusive_parameters")
    check_edits(given.context_management.edits)


def _edit(given: CreateMessage, kind: str) -> ContextEdit | None:
    edits = given.context_management.edits if given.context_management is not None else ()
    return next((edit for edit in edits if edit.type == kind), None)


def _cleared(given: CreateMessage, items: list[Item], beside: str, facts: MessageFacts) -> list[Item]:
    """The items without old results of tools, if the request says so."""
    edit = _edit(given, CLEAR_TOOL_USES)
    if edit is None:
        return items
    items, clearing = clear_tool_uses(items, edit, beside)
    if clearing.cleared:
        facts.edits = [clearing.shown]
    return items


def _compaction(given: CreateMessage) -> list[ContextManagement] | None:
    """Without a threshold, the history is compacted when it fills most of the model's window."""
    edit = _edit(given, COMPACT)
    if edit is None:
        return None
    threshold = None if edit.trigger is None else max(LEAST_THRESHOLD, edit.trigger.value)
    return [ContextManagement("compaction", threshold)]


def _trigger(given: CreateMessage) -> list[Item]:
    """The answer is a summary, and nothing else."""
    if given.compaction is None:
        return []
    words = (given.compaction.instructions or "").strip()
    return [{"type": "compaction_trigger", **({"prompt": words} if words else {})}]


def _beyond(given: CreateMessage) -> Beyond:
    for at, sequence in enumerate(given.stop_sequences or ()):
        if not sequence.strip():
            problem = f"`stop_sequences[{at}]` must not be empty, nor white space alone."
            raise InvalidRequest(problem, param=f"stop_sequences[{at}]", code="invalid_value")
    edit = _edit(given, COMPACT) or ContextEdit(COMPACT)
    return Beyond(
        top_k=given.top_k,
        stop_sequences=given.stop_sequences or None,
        shows_files=True,
        may_pause=True,
        shows_summary=True,
        summary_instructions=edit.instructions or None,
        pauses_after_compaction=bool(edit.pause_after_compaction),
    )


# ---- the answer ------------------------------------------------------------------------------------------------------


def _format(given: CreateMessage) -> TextOptions | None:
    config = given.output_config or OutputConfig()
    where, format = ("output_config.format", config.format) if config.format else ("output_format", given.output_format)
    if not format:
        return None
    if format.get("type") != "json_schema" or not isinstance(schema := format.get("schema"), dict):
        problem = f"`{where}` must have the type json_schema and a `schema`."
        raise InvalidRequest(problem, param=f"{where}.type", code="invalid_value")
    return TextOptions(format=TextFormat(type="json_schema", name="output", schema=schema, strict=True))


def _effort(given: CreateMessage) -> str | None:
    """Where `thinking` is not set, the model does as it does by default, and what it thinks is not shown: few engines can
    switch thinking off, and each of them in another way."""
    if given.thinking is None:
        return None
    if given.thinking.type == "disabled":
        return NO_EFFORT
    effort = next(_efforts(given), None)
    return EFFORTS.get(effort, effort) if effort is not None else EFFORT


def _efforts(given: CreateMessage) -> Iterator[str]:
    """A system message may have another one for the turn in which it stands. The last one counts."""
    for at in reversed(range(len(given.messages))):
        message = convert(given.messages[at], InputMessage, f"messages[{at}]")
        if message.role == "assistant":
            break
        if message.output_config is not None and message.output_config.effort is not None:
            yield message.output_config.effort
    if given.output_config is not None and given.output_config.effort is not None:
        yield given.output_config.effort


# ---- notices ---------------------------------------------------------------------------------------------------------


def _notices(given: CreateMessage, headers: Mapping[str, str]) -> list[str]:
    names = [name for name in DROPPED if _value(given, name) not in (None, *NOTHING)]
    notices = [WITHOUT_EFFECT.format(name=name) for name in names]
    notices += [WITHOUT_EFFECT.format(name=name) for name in OF_ACCOUNTS if name in headers]
    if given.thread is not None:
        notices.append(NOT_KEPT)
    if _container(given).skills:
        notices.append(NO_SKILLS)
    if given.thinking is None and given.output_config is not None and given.output_config.effort is not None:
        notices.append(NO_THINKING)
    return notices


def _value(given: CreateMessage, path: str) -> Any:
    """Of a field, or of a member of one."""
    name, _, member = path.partition(".")
    value = getattr(given, name)
    return getattr(value, member) if member and value is not None else value
