"""Tools as one engine gets them: constrained where that costs nothing, and with the descriptions of their namespaces."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from antiphon.core.checks.schema_support import is_enforced
from antiphon.core.toolbox.tools import Toolbox
from antiphon.wire.chat import ChatFunction, ChatTool


def tools_as_sent(tools: Sequence[ChatTool], box: Toolbox, *, constrains: bool) -> list[ChatTool]:
    """`constrains`: the engine constrains the arguments of functions that are marked as strict."""
    described = dict(_namespace_words(tools, box))
    return [ChatTool(_as_sent(tool.function, box, described.get(tool.function.name, ""), constrains)) for tool in tools]


def _as_sent(function: ChatFunction, box: Toolbox, words: str, constrains: bool) -> ChatFunction:
    description = "\n\n".join(filter(None, (function.description, words))) or None
    strict = function.strict or (constrains and _may_be_constrained(function, box)) or None
    if (description, strict) == (function.description, function.strict):
        return function
    return structs.replace(function, description=description, strict=strict)


def _may_be_constrained(function: ChatFunction, box: Toolbox) -> bool:
    """Unless the client says otherwise, arguments follow their schema if the engine enforces it, and are not checked."""
    return box.natives[function.name] not in box.unconstrained and is_enforced(function.parameters)


def _namespace_words(tools: Iterable[ChatTool], box: Toolbox) -> Iterable[tuple[str, str]]:
    """The first function of a namespace has its description, once for all: every further copy would only cost tokens."""
    seen: set[str] = set()
    for tool in tools:
        namespace = box.natives[tool.function.name].namespace
        if namespace in box.namespaces and namespace not in seen:
            seen.add(namespace)
            yield tool.function.name, f"About all tools of {namespace}: {box.namespaces[namespace]}"
