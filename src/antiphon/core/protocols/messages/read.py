"""A request of Anthropic Messages → a request of the Responses API."""

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.messages.blocks import ItemReader
from antiphon.core.protocols.messages.facts import MessageFacts
from antiphon.core.protocols.messages.places import Places
from antiphon.core.protocols.messages.tool_changes import current_tools
from antiphon.core.protocols.messages.tools import ToolReader, choice_to_responses
from antiphon.core.protocols.responses.fields import SEALED_REASONING, RequestLimits, check_request
from antiphon.core.protocols.responses.read import convert, read_struct
from antiphon.errors import UNREADABLE, InvalidRequest, NotFound, quoted
from antiphon.wire.messages import Block, CreateMessage, OutputConfig, RequestMetadata, TextInput
from antiphon.wire.responses import Beyond, CreateResponse, ReasoningOptions, TextFormat, TextOptions

# Claude Code's first block of `system`. It has another hash in each conversation: no two prompts would begin alike.
BILLING = "x-anthropic-billing-header:"
# Which conversation a request of Claude Code belongs to, and which of its agents.
SESSION, AGENT = "x-claude-code-session-id", "x-claude-code-agent-id"
# Of a conversation's key.
LONGEST_KEY = 64

# The fields that are accepted, and change nothing here.
DROPPED = ("top_k", "container", "service_tier")
WITHOUT_EFFECT = "field {name} was left out: it has no effect here"
# Edits of the context that an engine's own template makes, or that change nothing.
HARMLESS_EDITS = ("clear_thinking_20251015",)
NO_THINKING = "output_config.effort has no effect without thinking"
NOT_EDITED = "context_management: the edit {kind} was not made"
# Anthropic's SDKs send the whole conversation again after an error of this code; their tool runners begin a thread unasked.
NO_THREAD = "thread_not_found"
NOT_KEPT = "thread: the conversation is not kept here"
# The effort of a thought, where the request names none.
EFFORT, NO_EFFORT = "medium", "none"
# The names that the Responses API does not have, and the nearest that it has.
EFFORTS = {"max": "xhigh"}


def body_to_request(body: bytes, headers: Mapping[str, str], limits: RequestLimits) -> ReadRequest:
    given, unknown = read_struct(body, CreateMessage, limits)
    if given.thread is not None and given.thread.type == "continue":
        problem = "Conversations are not kept for this protocol. Send the whole one again."
        raise NotFound(problem, param="thread.previous_message_id", code=NO_THREAD)
    reader = ItemReader()
    for at, message in enumerate(given.messages):
        reader.read(message, f"messages[{at}]")
    reader.finish()
    if not reader.items:
        raise InvalidRequest("`messages` must have a message with content.", param="messages", code="empty_array")
    tools = ToolReader(given.mcp_servers or [])
    for tool, where in current_tools(given.tools or [], given.messages):
        tools.read(tool, where)
    tools.finish()
    choice = given.tool_choice
    request = CreateResponse(
        model=given.model,
        input=reader.items,
        instructions=_system(given.system),
        tools=tools.tools or None,
        tool_choice=None if choice is None else choice_to_responses(choice, tools.hosted),
        # A thought is restored from its seal, also if the answer is stored.
        include=[SEALED_REASONING, *tools.include],
        max_tool_calls=tools.most_calls,
        parallel_tool_calls=False if choice is not None and choice.disable_parallel_tool_use else None,
        text=_format(given),
        reasoning=ReasoningOptions(effort=_effort(given)),
        max_output_tokens=given.max_tokens,
        temperature=given.temperature,
        top_p=given.top_p,
        prompt_cache_key=_conversation_key(given.metadata, headers),
        store=False,
        stream=given.stream,
        beyond=_beyond(given),
    )
    facts = MessageFacts(Places(reader.places, tools.places), hides_thoughts=_hides_thoughts(given))
    try:
        check_request(request, limits)
    except InvalidRequest as wrong:
        wrong.reword(facts.places.in_own_words)
        raise
    return ReadRequest(request, unknown, [*reader.notices, *tools.notices, *_notices(given)], facts=facts)


def _hides_thoughts(given: CreateMessage) -> bool:
    return given.thinking is not None and given.thinking.display == "omitted"


def _beyond(given: CreateMessage) -> Beyond:
    for at, sequence in enumerate(given.stop_sequences or ()):
        if not sequence.strip():
            problem = f"`stop_sequences[{at}]` must not be empty, nor white space alone."
            raise InvalidRequest(problem, param=f"stop_sequences[{at}]", code="invalid_value")
    return Beyond(stop_sequences=given.stop_sequences or None)


def _system(system: str | list[Block] | None) -> str | None:
    if system is None:
        return None
    blocks = [{"text": system}] if isinstance(system, str) else system
    texts = (convert(block, TextInput, f"system[{at}]").text for at, block in enumerate(blocks))
    return "\n\n".join(text for text in texts if text and not text.startswith(BILLING)) or None


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
    effort = given.output_config.effort if given.output_config is not None else None
    return EFFORTS.get(effort, effort) if effort is not None else EFFORT


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


def _notices(given: CreateMessage) -> list[str]:
    dropped = [WITHOUT_EFFECT.format(name=name) for name in DROPPED if getattr(given, name) is not None]
    if given.thread is not None:
        dropped.append(NOT_KEPT)
    if given.thinking is None and given.output_config is not None and given.output_config.effort is not None:
        dropped.append(NO_THINKING)
    edits = (given.context_management or {}).get("edits")
    kinds = [each.get("type") for each in edits if isinstance(each, dict)] if isinstance(edits, list) else []
    return [*dropped, *(NOT_EDITED.format(kind=quoted(kind)) for kind in kinds if kind not in HARMLESS_EDITS)]
