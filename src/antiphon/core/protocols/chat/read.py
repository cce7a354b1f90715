"""A request of Chat Completions → a request of the Responses API, or the word that it is to be passed on."""

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.core.protocols.chat.messages import ItemReader
from antiphon.core.protocols.chat.places import Places
from antiphon.core.protocols.chat.ways import NO_RULES, PASSED, WEB_SEARCH, Rules, choose_way
from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.responses.fields import LOGPROBS, RequestLimits, check_nesting, check_request, refuse_unsupported
from antiphon.core.protocols.responses.read import convert, decode_json
from antiphon.errors import InvalidRequest
from antiphon.wire.chat_completions import (
    AllowedChoice,
    ChatStreamOptions,
    CreateChat,
    CustomChoice,
    CustomTool,
    ResponseFormat,
    SchemaFormat,
)
from antiphon.wire.input_items import Tool
from antiphon.wire.responses import Beyond, CreateResponse, ReasoningOptions, TextFormat, TextOptions

# The fields that are read, and those that are read only to choose the way. All others are for the engine.
READ = frozenset({*CreateChat.__struct_fields__, *PASSED})
# The name of a schema that has none.
SCHEMA = "answer"
# As llama.cpp and others have it: an answer of any length.
ANY_LENGTH = -1

# What a request may have that changes nothing here, and what is said of it.
NOT_STORED = "field store has no effect: the settings say whether chat completions are stored (store_messages)"
NO_EFFECT = "field {field} has no effect here"
WITHOUT_EFFECT = ("prompt_cache_options", "prompt_cache_retention", "safety_identifier")
PADDING = "stream_options.include_obfuscation"


def body_to_request(body: bytes, limits: RequestLimits, rules: Rules = NO_RULES, owner: str = "") -> ReadRequest:
    value = decode_json(body)
    way = choose_way(value, rules, owner)
    notices = [] if way.notice is None else [way.notice]
    if way.passes:
        model = value.get("model") if isinstance(value, dict) else None
        return ReadRequest(CreateResponse(model=model if isinstance(model, str) else None), (), notices, passes=True)
    check_nesting(value, limits)
    given = convert(value, CreateChat, "")
    reader = ItemReader()
    for at, message in enumerate(given.messages):
        reader.read(message, f"messages[{at}]")
    if not reader.items:
        raise InvalidRequest("`messages` must have a message.", param="messages", code="empty_array")
    request = _to_request(given, reader)
    request.beyond = Beyond(engine_fields=_engine_fields(value), passes_extras=True)
    places = Places(reader.places)
    try:
        refuse_unsupported(request)
        check_request(request, limits)
    except InvalidRequest as wrong:
        wrong.reword(places.in_own_words)
        raise
    return ReadRequest(request, (), [*notices, *reader.notices, *_notices(given)], facts=places)


def _to_request(given: CreateChat, reader: ItemReader) -> CreateResponse:
    return CreateResponse(
        model=given.model,
        input=reader.items,
        tools=[*(_tool(tool, f"tools[{at}]") for at, tool in enumerate(given.tools or [])), *_search(given)] or None,
        tool_choice=_choice(given.tool_choice),
        parallel_tool_calls=given.parallel_tool_calls,
        text=_text(given),
        reasoning=None if given.reasoning_effort is None else ReasoningOptions(effort=given.reasoning_effort),
        include=[LOGPROBS] if given.logprobs else None,
        top_logprobs=given.top_logprobs if given.logprobs else None,
        max_output_tokens=_most_tokens(given),
        temperature=given.temperature,
        top_p=given.top_p,
        presence_penalty=given.presence_penalty,
        frequency_penalty=given.frequency_penalty,
        stop=given.stop or None,
        seed=given.seed,
        user=given.user,
        service_tier=given.service_tier,
        safety_identifier=given.safety_identifier,
        prompt_cache_key=given.prompt_cache_key,
        prompt_cache_retention=given.prompt_cache_retention,
        metadata=given.metadata,
        moderation=given.moderation,
        store=False,
        stream=given.stream,
        # Without the padding of deltas, which has no place in the chunks that are written.
        stream_options=ChatStreamOptions(include_usage=given.stream_options.include_usage) if given.stream_options else None,
    )


def _engine_fields(value: Mapping[str, Any]) -> dict[str, Any] | None:
    return {name: member for name, member in value.items() if name not in READ and member is not None} or None


def _most_tokens(given: CreateChat) -> int | None:
    """`max_tokens` is the older name."""
    name = "max_tokens" if given.max_completion_tokens is None else "max_completion_tokens"
    most: int | None = getattr(given, name)
    if most is None or most == ANY_LENGTH:
        return None
    if most < 1:
        raise InvalidRequest(f"Invalid `{name}`: it must be 1 at least.", param=name, code="integer_below_min_value")
    return most


def _notices(given: CreateChat) -> list[str]:
    idle = [name for name in WITHOUT_EFFECT if getattr(given, name)]
    if given.stream_options is not None and given.stream_options.include_obfuscation:
        idle.append(PADDING)
    return [*([NOT_STORED] if given.store else []), *(NO_EFFECT.format(field=field) for field in idle)]


# ---- tools -----------------------------------------------------------------------------------------------------------


def _tool(tool: Tool, where: str) -> Tool:
    """A function may be nested in the hub format, too."""
    if tool.get("type") != "custom":
        return {"type": "function", **tool}
    custom = convert(tool, CustomTool, where).custom
    made: Tool = {"type": "custom", "name": custom.name}
    if custom.description is not None:
        made["description"] = custom.description
    if custom.format is not None and custom.format.grammar is not None:
        grammar = custom.format.grammar
        made["format"] = {"type": "grammar", "syntax": grammar.syntax, "definition": grammar.definition}
    return made


def _search(given: CreateChat) -> Iterator[Tool]:
    """The search of the web, which has no place in `tools` here."""
    if (options := given.web_search_options) is not None:
        size = {} if options.search_context_size is None else {"search_context_size": options.search_context_size}
        place = options.user_location
        location = {} if place is None else {"user_location": {"type": place.type, **place.approximate}}
        yield {"type": WEB_SEARCH, **size, **location}


def _choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools":
        allowed = convert(choice, AllowedChoice, "tool_choice").allowed_tools
        return {"type": "allowed_tools", "mode": allowed.mode, "tools": [_named(each) for each in allowed.tools]}
    return _named(choice)


def _named(choice: dict[str, Any]) -> dict[str, Any]:
    """A function may be nested in the hub format, too."""
    if choice.get("type") != "custom":
        return choice
    return {"type": "custom", "name": convert(choice, CustomChoice, "tool_choice").custom.name}


# ---- the format ------------------------------------------------------------------------------------------------------


def _text(given: CreateChat) -> TextOptions | None:
    format = None if given.response_format is None else _format(given.response_format)
    return None if format is None and given.verbosity is None else TextOptions(format=format, verbosity=given.verbosity)


def _format(format: ResponseFormat) -> TextFormat | None:
    if format.type == "text":
        return None
    shape = format.json_schema or SchemaFormat()
    schema = format.schema if shape.schema is None else shape.schema
    if schema is None:
        if format.type == "json_object":
            return TextFormat(type="json_object")
        param = "response_format.json_schema.schema"
        raise InvalidRequest(f"Missing required parameter: `{param}`.", param=param, code="missing_required_parameter")
    return TextFormat("json_schema", shape.name or SCHEMA, shape.description, schema, shape.strict)
