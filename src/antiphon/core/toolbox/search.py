"""Tool search that the gateway runs: what a model reads of deferred tools, and how it finds them.

A search is by name or by words. Names are those of tools, namespaces and MCP servers, as the description of the search lists
them, in whatever way a model writes them: `crm`, `crm.list_orders`, `crm__list_orders`. What was found is an item with the
definitions of the tools, which are offered from then on: in the rest of the response, and wherever the item is in the history.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from antiphon.core.toolbox.choice import Choice, allowed_deferred
from antiphon.core.toolbox.deferred import DeferredTool
from antiphon.core.toolbox.mcp_servers import MCP
from antiphon.core.toolbox.prompt_texts import FOUND, NO_TOOL_FITS, SEARCH_AGAIN
from antiphon.core.toolbox.response_tools import tool_to_response
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import SERVER_SEARCH, ToolIdentity, is_namespace_of_its_own
from antiphon.core.toolbox.word_ranking import scores, words_of
from antiphon.errors import UNREADABLE, counted
from antiphon.patterns import late_pattern
from antiphon.wire.chat import ChatTool
from antiphon.wire.input_items import Tool

Deferred = Mapping[ToolIdentity, DeferredTool]

# How many tools one search finds by words, and by names, which may be those of large namespaces.
MOST_BY_WORDS = 5
MOST_BY_NAMES = 32
# What scores less than this share of the best is not what was meant.
LEAST_SHARE = 0.4
# A word in the name of a tool counts as much as so many in its description.
NAME_WEIGHT = 3
# How many names a search looks up.
MOST_PATHS = 64

# How much of a description is searched, in characters.
LONGEST_TEXT = 600

# The list in the description of the search: its lines, and the length of each description.
MOST_LINES = 60
LONGEST_LINE = 160
# The names that a model gets if it found nothing.
MOST_NAMES = 60

LISTED = "These have to be found before they can be called:"

_NOT_IN_KEYS = late_pattern(r"[\W_]+")


# ---- the description and the results ---------------------------------------------------------------------------------


def describe_search(box: Toolbox) -> None:
    """Lists in the description of the search what there is. It stays the same when something was found, so that prompts begin
    alike."""
    name = box.offered.names.get(SERVER_SEARCH)
    if name is None or not box.deferred.tools:
        return
    lines = list(_catalogue(box))
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"- and {len(lines) - MOST_LINES} more"]
    function = box.offered.functions[name].function
    description = "\n".join([f"{function.description} {LISTED}", *lines])
    box.offered.functions[name] = ChatTool(structs.replace(function, description=description))


def _catalogue(box: Toolbox) -> Iterable[str]:
    """A namespace, a server, or a tool that is in neither."""
    sizes = Counter(map(_group, box.deferred.tools))
    for identity, tool in box.deferred.tools.items():
        group = _group(identity)
        if group is None:
            yield _line(identity.name, tool.function.description)
        elif size := sizes.pop(group, 0):
            yield _line(f"{group.name} ({counted(size, 'tool')})", group_words(tool))


def _line(name: str, description: Any) -> str:
    about = " ".join(str(description or "").split())
    if len(about) > LONGEST_LINE:
        about = f"{about[:LONGEST_LINE].rstrip()} …"
    return f"- {name}: {about}" if about else f"- {name}"


class Group(NamedTuple):
    """A namespace or a server."""

    is_server: bool
    name: str


def _group(identity: ToolIdentity) -> Group | None:
    if not identity.namespace or is_namespace_of_its_own(identity):
        return None
    return Group(identity.kind == MCP, identity.namespace)


def group_words(tool: DeferredTool) -> str:
    about = tool.definition.get("server_description") if tool.group is None else tool.group.get("description")
    return str(about or "")


def found_to_text(tools: Sequence[Tool], box: Toolbox) -> str:
    """The result of a search for the model: the same in the response that searches, and in every later prompt."""
    if names := [box.name_of(identity) for tool in tools for identity in _identities(tool)]:
        return FOUND.format(names=", ".join(names))
    if not box.deferred.tools:
        return NO_TOOL_FITS
    # A history may have many searches that found nothing.
    shown = [tool.function.name for tool in islice(box.deferred.tools.values(), MOST_NAMES)]
    if (more := len(box.deferred.tools) - len(shown)) > 0:
        shown.append(f"and {more} more")
    return f"{NO_TOOL_FITS} {SEARCH_AGAIN.format(names=', '.join(shown))}"


def _identities(tool: Tool) -> Iterable[ToolIdentity]:
    """The tools of a definition in an item, which may be anything that a client sent."""
    kind, name = tool.get("type"), str(tool.get("name"))
    if kind == "namespace":
        inner = tool.get("tools")
        members = [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
        yield from (ToolIdentity(str(each.get("type")), str(each.get("name")), name) for each in members)
    elif kind == MCP:
        names = tool.get("allowed_tools")
        label = str(tool.get("server_label"))
        yield from (ToolIdentity(MCP, str(each), label) for each in (names if isinstance(names, list) else ()))
    else:
        yield ToolIdentity(str(kind), name, name if kind == "function" else None)


# ---- the search ------------------------------------------------------------------------------------------------------


def search(box: Toolbox, arguments: str, choice: str | Choice | None = None) -> list[Tool]:
    """The definitions of the tools that a call of the search finds, as its item shows them. `choice`: the request's, which may
    leave out some."""
    allowed = allowed_deferred(choice, box)
    query, paths = _read(arguments)
    found = _by_names(allowed, [*paths, query]) or _by_words(allowed, " ".join([query, *paths]))
    return list(_definitions(allowed, found))


def _read(arguments: str) -> tuple[str, list[str]]:
    """The query and the paths. A model may write either as a list or as a text, and give them other names."""
    try:
        members = msgspec.json.decode(arguments)
    except UNREADABLE:
        return arguments, []
    if not isinstance(members, dict):
        return str(members), []
    paths = _texts(members.pop("paths", None))
    return " ".join(text for member in members.values() for text in _texts(member)), paths[:MOST_PATHS]


def _texts(member: Any) -> list[str]:
    values = member if isinstance(member, list) else [member]
    return [value for value in values if isinstance(value, str)]


def _by_names(tools: Deferred, names: Sequence[str]) -> list[ToolIdentity]:
    known: dict[str, dict[ToolIdentity, None]] = {}
    for identity, tool in tools.items():
        for name in (tool.function.name, identity.name, identity.namespace, f"{identity.namespace or ''}.{identity.name}"):
            if name:
                known.setdefault(_key(name), {})[identity] = None
    found = {identity: None for name in names for identity in known.get(_key(name), ())}
    return list(found)[:MOST_BY_NAMES]


def _key(name: str) -> str:
    return _NOT_IN_KEYS.sub("_", name.casefold()).strip("_")


def _by_words(tools: Deferred, query: str) -> list[ToolIdentity]:
    about: dict[Group, list[str]] = {}
    texts = [_words(identity, tool, about) for identity, tool in tools.items()]
    ranked = sorted(zip(scores(query, texts), tools, strict=True), key=lambda row: -row[0])
    best = ranked[0][0] if ranked else 0
    return [identity for score, identity in ranked[:MOST_BY_WORDS] if score > 0 and score >= LEAST_SHARE * best]


def _words(identity: ToolIdentity, tool: DeferredTool, about: dict[Group, list[str]]) -> list[str]:
    """`about`: the words of groups, which each of their tools has. They are few."""
    words = words_of(identity.name) * NAME_WEIGHT + words_of((tool.function.description or "")[:LONGEST_TEXT])
    if (group := _group(identity)) is None:
        return words
    if group not in about:
        about[group] = words_of(f"{group.name} {group_words(tool)[:LONGEST_LINE]}")
    return words + about[group]


def _definitions(tools: Deferred, identities: Sequence[ToolIdentity]) -> Iterable[Tool]:
    """As the client sent them. Of a namespace or a server, those of its tools that were found."""
    shown: set[Group] = set()
    for identity in identities:
        group, tool = _group(identity), tools[identity]
        if group is None:
            # Its namespace may have the same name.
            yield tool_to_response(tool.definition) if tool.group is None else _group_to_response(tool, {identity: tool})
        elif group not in shown:
            shown.add(group)
            yield _group_to_response(tool, {each: tools[each] for each in identities if _group(each) == group})


def _group_to_response(tool: DeferredTool, found: Deferred) -> Tool:
    if tool.group is None:
        return {**tool_to_response(tool.definition), "allowed_tools": [identity.name for identity in found]}
    return tool_to_response({**tool.group, "tools": [each.definition for each in found.values()]})
