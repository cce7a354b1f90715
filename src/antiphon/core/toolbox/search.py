"""Short texts ranked by the words that they share with a query: BM25, without an index that is kept."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from antiphon.core.toolbox.choice import Choice, allowed_deferred
from antiphon.core.toolbox.deferred import DeferredTool
from antiphon.core.toolbox.response_tools import tool_to_response
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import SERVER_SEARCH, Tool, ToolIdentity, is_namespace_of_its_own
from antiphon.errors import UNREADABLE, counted
from antiphon.wire.chat import ChatTool

# How soon a word that is repeated stops to count, and how much the length of a text counts.
SATURATION = 1.2
LENGTH_SHARE = 0.75

# Of a text and of a query, in characters: enough for any description, and a bound on the work.
LONGEST_TEXT = 600
LONGEST_QUERY = 600

# Words that every description has.
COMMON = frozenset(
    "a an and are as at be by can could do does for from how i if in into is it its me my need of on or please should some "
    "that the their them then there these they this to tool tools us use used want was we what when which will with would "
    "you your".split()
)
_WORD = re.compile(r"[^\W_]+")
# Where camelCase and HTTPServer are split.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts without spaces between words.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")


def words_of(text: str) -> list[str]:
    """Lower case, singular, without common words. A name in camelCase is its parts, and itself."""
    return [plain for word in _WORD.findall(text) for plain in _plain(word)]


# Descriptions have most words in common.
@lru_cache(maxsize=4096)
def _plain(word: str) -> tuple[str, ...]:
    parts = _HUMP.split(word)
    whole = parts if len(parts) == 1 else (*parts, word)
    return tuple(plain for part in whole for plain in _split(part.casefold()) if plain not in COMMON)


def _split(word: str) -> Iterable[str]:
    runs = _UNSPACED.findall(word)
    if not runs:
        return (_singular(word),)
    # Pairs of characters, as those scripts are usually searched.
    return (run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1)))


def _singular(word: str) -> str:
    """Near enough: both sides are treated alike."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def scores(query: str, texts: Sequence[Sequence[str]]) -> list[float]:
    """How well each text, as its words, answers the query; 0 if they share no word. Linear in the length of all of them."""
    wanted = set(words_of(query[:LONGEST_QUERY]))
    counts = [Counter(filter(wanted.__contains__, text)) for text in texts]
    having = Counter(word for count in counts for word in count)
    rarity = {word: math.log(1 + (len(texts) - number + 0.5) / (number + 0.5)) for word, number in having.items()}
    usual = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    return [_score(count, rarity, len(text) / usual) for count, text in zip(counts, texts, strict=True)]


def _score(count: Counter[str], rarity: dict[str, float], length: float) -> float:
    damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length)
    return sum(rarity[word] * times * (SATURATION + 1) / (times + damping) for word, times in count.items())


# ---- Tool search that the gateway runs: what a model is told of deferred tools, and how it finds them ----------------
# A search is by name or by words. Names are those of tools, namespaces and MCP servers, as the description of the search
# lists them, in whatever way a model writes them: `crm`, `crm.list_orders`, `crm__list_orders`. What was found is an item
# with the definitions of the tools, which are offered from then on: in the rest of the response, and wherever the item is in
# the history.

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

# The list in the description of the search: its lines, and the length of each description.
MOST_LINES = 60
LONGEST_LINE = 160
# The names that a model gets if it found nothing.
MOST_NAMES = 60

LISTED = "These have to be found before they can be called:"
FOUND = "These tools can be called now: {names}."
NOT_FOUND = "No tool fits. Search again with other words, or with one of these names: {names}."
NOTHING_LEFT = "No tool fits."

_NOT_IN_KEYS = re.compile(r"[\W_]+")


# ---- what the model is told ------------------------------------------------------------------------------------------


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
    return Group(identity.kind == "mcp", identity.namespace)


def group_words(tool: DeferredTool) -> str:
    about = tool.definition.get("server_description") if tool.group is None else tool.group.get("description")
    return str(about or "")


def found_to_text(tools: Sequence[Tool], box: Toolbox) -> str:
    """The result of a search for the model: the same in the response that searches, and in every later prompt."""
    if names := [box.name_of(identity) for tool in tools for identity in _identities(tool)]:
        return FOUND.format(names=", ".join(names))
    if not box.deferred.tools:
        return NOTHING_LEFT
    # A history may have many searches that found nothing.
    shown = [tool.function.name for tool in islice(box.deferred.tools.values(), MOST_NAMES)]
    if (more := len(box.deferred.tools) - len(shown)) > 0:
        shown.append(f"and {more} more")
    return NOT_FOUND.format(names=", ".join(shown))


def _identities(tool: Tool) -> Iterable[ToolIdentity]:
    """The tools of a definition in an item, which may be anything that a client sent."""
    kind, name = tool.get("type"), str(tool.get("name"))
    if kind == "namespace":
        inner = tool.get("tools")
        members = [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
        yield from (ToolIdentity(str(each.get("type")), str(each.get("name")), name) for each in members)
    elif kind == "mcp":
        names = tool.get("allowed_tools")
        label = str(tool.get("server_label"))
        yield from (ToolIdentity("mcp", str(each), label) for each in (names if isinstance(names, list) else ()))
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
