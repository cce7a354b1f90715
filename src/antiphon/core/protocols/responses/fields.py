"""The fields of a request: what happens to each, what is refused, what is read from it in more than one place, and how large
its parts may be. What is larger gets a 400 that names the field, the limit and the value.

The limits are far above what clients send. They keep the work of one request small enough for the others: what is within them
is read in time that grows with its size, and no faster.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress, repeat
from operator import attrgetter, is_
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest, allowed, counted, quoted
from antiphon.patterns import late_pattern, possessive
from antiphon.wire import hosted_items
from antiphon.wire.input_items import WITH_TOOLS, Item, Tool
from antiphon.wire.responses import CreateResponse, TextFormat

# A tool, after its place in the request.
PlacedTool = tuple[str, Tool]


class RequestLimits(Struct, frozen=True):
    """Each is a setting, which has the same name after `max_`."""

    # Items in the `input` of one request. A stored history may have more.
    input_items: int = 20_000
    # In `tools` and in input items, with those in namespaces.
    tools: int = 2_000
    # Objects and arrays inside one another.
    nesting: int = 128
    # One schema, as JSON; one grammar; one image in a data URL.
    schema_bytes: int = 256 * 1024
    grammar_bytes: int = 64 * 1024
    image_bytes: int = 32 * 1024 * 1024
    # The names of tools, namespaces and models, in characters.
    name_length: int = 256


DEFAULT_LIMITS = RequestLimits()
# Of a request that was accepted before.
NO_LIMITS = RequestLimits(**dict.fromkeys(RequestLimits.__struct_fields__, sys.maxsize))

# Of a grammar. They bound the time that its compilation takes; a grammar for people to read is far below them.
MOST_LITERALS = 2_000
DEEPEST_GROUP = 12
LONGEST_PATTERN = 8 * 1024
# What can be nested, in decoded JSON.
NESTED = frozenset({dict, list})
_is_dict, _is_list = partial(is_, dict), partial(is_, list)
# The members of items that may have parts.
WITH_PARTS = ("content", "output")
# The words of Lark that matter here. What is not closed ends with its line, so that nothing is read twice.
_LARK = possessive(
    r"""(?P<comment>(?://|\#)[^\n]*+)
    | (?P<literal>"(?:\\.|[^"\\\n])*+"? | /(?:\\.|[^/\\\n])*+/?)
    | (?P<open>[(\[]) | (?P<close>[)\]])
    | %import[ \t]++(?P<import>[^\s(]*+)""",
    re.VERBOSE,
)
# The rules that come with Lark. No other file is opened.
_COMMON = late_pattern(r"common(\.\w+)?")


def check_nesting(value: dict[str, Any], limits: RequestLimits = DEFAULT_LIMITS) -> None:
    """Of a whole body, before anything else looks into it."""
    for name, member in value.items():
        if type(member) not in NESTED or not is_deeper(member, limits.nesting - 1):
            continue
        inner = enumerate(member) if isinstance(member, list) else ()
        where = next((f"{name}[{at}]" for at, each in inner if is_deeper(each, limits.nesting - 2)), name)
        raise InvalidRequest(
            f"Invalid `{where}`: objects and arrays are nested too deeply. At most {allowed(limits.nesting, 'level')} "
            "(`max_nesting`), with that of the body.",
            param=where,
            code="json_above_max_depth",
        )


def is_deeper(value: Any, levels: int) -> bool:
    """Level by level, and without recursion: a value may be deeper than the stack."""
    level = [value] if type(value) in NESTED else []
    for _ in range(levels):
        if not level:
            return False
        level = _one_level_in(level)
    return bool(level)


def _one_level_in(level: list[Any]) -> list[Any]:
    """The objects and arrays in these. Without a step of Python for each member: of a long history there are thousands."""
    kinds = set(map(type, level))
    if kinds == {dict}:
        each: Iterable[Any] = map(dict.values, level)
    elif kinds == {list}:
        each = level
    else:
        each = [one.values() if type(one) is dict else one for one in level]
    members = list(chain.from_iterable(each))
    return list(compress(members, map(NESTED.__contains__, map(type, members))))


def check_request(request: CreateResponse, limits: RequestLimits) -> None:
    items = request.input if isinstance(request.input, list) else []
    if items:
        _at_most(limits.input_items, len(items), "input", "item", "max_input_items", code="array_above_max_length")
    if request.model is not None and len(request.model) > limits.name_length:
        _check_name(request.model, "model", limits)
    if request.text is not None and request.text.format is not None:
        _check_schema(request.text.format.schema, "text.format.schema", limits)
    if items or request.tools:
        check_items(items, "input", limits, [*_placed(request.tools, "tools")])


def check_items(items: Sequence[Item], where: str, limits: RequestLimits, tools: Sequence[PlacedTool] = ()) -> None:
    """The items of the member `where`. They count together with the tools that come beside them."""
    tools = list(tools)
    # What no item has is not looked for in each: most histories have neither names nor tools nor images.
    members = set().union(*items)
    for at, item in enumerate(() if members.isdisjoint(("name", "tools")) else items):
        # Paths are made only for what there is: those of 200 items would take as long as all the rest of this.
        if "name" in item and isinstance(name := item["name"], str) and len(name) > limits.name_length:
            _check_name(name, f"{where}[{at}].name", limits)
        if "tools" in item and item.get("type") in WITH_TOOLS:
            tools += _placed(item["tools"], f"{where}[{at}].tools")
    for member in WITH_PARTS:
        if member in members and _has_images(list(map(dict.get, items, repeat(member)))):
            for at, item in enumerate(items):
                if isinstance(parts := item.get(member), list):
                    _check_images(parts, f"{where}[{at}].{member}", limits)
    _at_most(limits.tools, len(tools), "tools", "tool", "max_tools", code="array_above_max_length")
    for place, tool in tools:
        _check_tool(tool, place, limits)


def _at_most(limit: int, value: int, where: str, noun: str, setting: str, *, code: str) -> None:
    if value > limit:
        most = allowed(limit, noun) + (f" (`{setting}`)" if setting else "")
        raise InvalidRequest(f"Invalid `{where}`: it has {counted(value, noun)}, and at most {most}.", param=where, code=code)


def _check_name(name: Any, where: str, limits: RequestLimits) -> None:
    if isinstance(name, str) and len(name) > limits.name_length:
        code = "string_above_max_length"
        _at_most(limits.name_length, len(name), where, "character", "max_name_length", code=code)


# ---- tools -----------------------------------------------------------------------------------------------------------


def _placed(tools: Any, where: str) -> Iterator[PlacedTool]:
    """Every tool with its place, those of a namespace after it. What is no tool is reported where tools are read."""
    for at, tool in enumerate(tools) if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            yield f"{where}[{at}]", tool
            yield from _placed(tool.get("tools"), f"{where}[{at}].tools") if tool.get("type") == "namespace" else ()


def _check_tool(tool: Tool, where: str, limits: RequestLimits) -> None:
    nested = tool.get("function")
    if isinstance(nested, dict):
        tool, where = nested, f"{where}.function"
    _check_name(tool.get("name"), f"{where}.name", limits)
    _check_schema(tool.get("parameters"), f"{where}.parameters", limits)
    format = tool.get("format")
    if isinstance(format, dict) and isinstance(definition := format.get("definition"), str):
        place = f"{where}.format.definition"
        size, setting = len(definition.encode(errors="replace")), "max_grammar_bytes"
        _at_most(limits.grammar_bytes, size, place, "byte", setting, code="grammar_above_max_size")
        check = GRAMMARS.get(syntax) if isinstance(syntax := format.get("syntax"), str) else None
        if check is not None:
            check(definition, place)


def _check_schema(schema: Any, where: str, limits: RequestLimits) -> None:
    if isinstance(schema, dict):
        size = len(msgspec.json.encode(schema))
        _at_most(limits.schema_bytes, size, where, "byte", "max_schema_bytes", code="schema_above_max_size")


def _check_lark(definition: str, where: str) -> None:
    literals = depth = deepest = 0
    for found in _LARK.finditer(definition):
        kind = found.lastgroup
        literals += kind == "literal"
        depth += (kind == "open") - (kind == "close")
        deepest = max(deepest, depth)
        if kind == "import" and _COMMON.fullmatch(found["import"]) is None:
            raise InvalidRequest(
                f"Invalid `{where}`: `%import {found['import'][:64]}` is not allowed. Only `common` can be imported: copy "
                "other rules into the grammar.",
                param=where,
                code="invalid_grammar",
            )
    _at_most(MOST_LITERALS, literals, where, "literal", "", code="grammar_above_max_size")
    _at_most(DEEPEST_GROUP, deepest, where, "nested group", "", code="grammar_above_max_size")


def _check_regex(definition: str, where: str) -> None:
    _at_most(LONGEST_PATTERN, len(definition), where, "character", "", code="grammar_above_max_size")


GRAMMARS: dict[str, Callable[[str, str], None]] = {"lark": _check_lark, "regex": _check_regex}


# ---- images ----------------------------------------------------------------------------------------------------------


def _has_images(contents: Sequence[Any]) -> bool:
    """`contents`: lists of parts, and whatever else came in their place."""
    parts = list(chain.from_iterable(compress(contents, map(_is_list, map(type, contents)))))
    return "image_url" in set().union(*compress(parts, map(_is_dict, map(type, parts))))


def _check_images(parts: Iterable[Any], where: str, limits: RequestLimits) -> None:
    for at, part in enumerate(parts):
        url = part.get("image_url") if isinstance(part, dict) else None
        if isinstance(url, str) and url.startswith("data:"):
            # Four characters of base64 are three bytes.
            size = (len(url) - url.find(",") - 1) * 3 // 4
            place, code = f"{where}[{at}].image_url", "image_above_max_size"
            _at_most(limits.image_bytes, size, place, "byte", "max_image_bytes", code=code)


# What happens to each field of the request. A field that is not listed is not part of the API: dropped with a notice.
#   sent     the engine gets it, mapped where necessary
#   used     Antiphon itself acts on it
#   echoed   means nothing to a local engine; the response repeats it
#   ignored  concerns the client only
#   dropped  part of the API, but without effect here: left out, with a notice
#   refused  a 400 if it is set: it cannot be done
FIELDS: dict[str, str] = {
    "model": "sent",
    "input": "sent",
    "instructions": "sent",
    "tools": "sent",
    "tool_choice": "sent",
    "parallel_tool_calls": "sent",
    "text": "sent",
    "reasoning": "sent",
    "max_output_tokens": "sent",
    "temperature": "sent",
    "top_p": "sent",
    "presence_penalty": "sent",
    "frequency_penalty": "sent",
    "top_logprobs": "sent",
    "stop": "sent",
    "seed": "sent",
    "user": "sent",
    "max_tool_calls": "used",
    "include": "used",
    "stream": "used",
    "stream_options": "used",
    "generate": "used",
    "prompt_cache_key": "used",
    "store": "used",
    "truncation": "used",
    "context_management": "used",
    "previous_response_id": "used",
    "conversation": "used",
    "background": "used",
    "metadata": "echoed",
    "service_tier": "echoed",
    "safety_identifier": "echoed",
    "prompt_cache_retention": "echoed",
    "client_metadata": "ignored",
    "prompt_cache_options": "dropped",
    "access_programs": "dropped",
    "image": "dropped",
    # A client that asks for it relies on it.
    "moderation": "refused",
    "prompt": "refused",
}

REFUSED = tuple(name for name, policy in FIELDS.items() if policy == "refused")
DROPPED = tuple(name for name, policy in FIELDS.items() if policy == "dropped")
_refused = attrgetter(*REFUSED)
_dropped = attrgetter(*DROPPED)
NOTHING_DROPPED = (None,) * len(DROPPED)

LOGPROBS = "message.output_text.logprobs"
SEALED_REASONING = "reasoning.encrypted_content"
INCLUDABLE = frozenset(
    {
        LOGPROBS,
        SEALED_REASONING,
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        *hosted_items.INCLUDABLE,
    }
)


def refuse_unsupported(request: CreateResponse) -> None:
    refused = _refused(request)
    for name, value in zip(REFUSED, refused, strict=True) if any(refused) else ():
        if value:
            raise InvalidRequest(
                f"Unsupported parameter: `{name}` cannot be used here.", param=name, code="unsupported_parameter"
            )
    if request.text is not None:
        _refuse_unnamed(request.text.format)
    if request.include:
        refuse_unknown_includes(request.include)
    if request.context_management:
        _refuse_unknown_management(request)


def refuse_unknown_includes(names: Iterable[str]) -> None:
    for at, name in enumerate(names):
        if name not in INCLUDABLE:
            raise InvalidRequest(
                f"Invalid `include[{at}]`: {quoted(name)} must be one of: {', '.join(sorted(INCLUDABLE))}.",
                param=f"include[{at}]",
                code="invalid_value",
            )


def _refuse_unknown_management(request: CreateResponse) -> None:
    for at, entry in enumerate(request.context_management or ()):
        if entry.type != "compaction":
            where = f"context_management[{at}].type"
            raise InvalidRequest(
                f"Invalid `{where}`: {quoted(entry.type)} must be one of: compaction.", param=where, code="invalid_value"
            )


def _refuse_unnamed(format: TextFormat | None) -> None:
    if format is not None and format.type == "json_schema" and (not format.name or format.schema is None):
        missing = "schema" if format.name else "name"
        raise InvalidRequest(
            f"Missing required parameter: `text.format.{missing}`, because the type is json_schema.",
            param=f"text.format.{missing}",
            code="missing_required_parameter",
        )


def dropped_fields_to_notices(request: CreateResponse) -> list[str]:
    values = _dropped(request)
    if values == NOTHING_DROPPED and request.reasoning is None:
        return []
    dropped = [name for name, value in zip(DROPPED, values, strict=True) if value is not None]
    if (reasoning := request.reasoning) is not None:
        # Here all turns are sent, and each model has one mode.
        if reasoning.context == "current_turn":
            dropped.append("reasoning.context")
        if reasoning.mode not in (None, "standard"):
            dropped.append("reasoning.mode")
    return [f"field {name} has no effect here and was left out" for name in dropped]


# ---- what is read from it ------------------------------------------------------------------------------------------


def conversation_of(request: CreateResponse) -> str | None:
    given = request.conversation
    if given is None or isinstance(given, str):
        return given or None
    id = given.get("id")
    if not isinstance(id, str):
        code = "missing_required_parameter" if id is None else "invalid_type"
        raise InvalidRequest("Invalid `conversation.id`: it must be a string.", param="conversation.id", code=code)
    return id


def request_to_items(request: CreateResponse) -> list[dict[str, Any]]:
    if isinstance(request.input, str):
        return [{"type": "message", "role": "user", "content": request.input}]
    return request.input or []


def types_of(items: Sequence[Item]) -> set[Any]:
    """The types of items: few, however many items there are. A type may be anything that a client sent; None is also for one
    that has no hash."""
    if len(items) == 1 and isinstance(kind := items[0].get("type"), str):
        # As most inputs are.
        return {kind}
    try:
        # `methodcaller` would make an object for each.
        return set(map(dict.get, items, repeat("type")))
    except TypeError:
        return {None, *(kind for item in items if isinstance(kind := item.get("type"), str))}


def wants_summary(request: CreateResponse) -> str | None:
    """`generate_summary` is the older name of `reasoning.summary`."""
    asked = request.reasoning
    return None if asked is None else asked.summary or asked.generate_summary
