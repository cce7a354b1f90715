"""The paths of the members of what is sent and emitted, as the manifest names them."""

from collections.abc import Iterator
from typing import Any

# Members that are passed on, left out or never emitted as a whole, or listed by themselves: what is inside has no rows here.
UNREAD = frozenset(
    "messages tools tool_choice response_format functions function_call audio moderation prediction prompt_cache_options "
    "prompt_cache_breakpoint refusal".split()
)
# Objects of the client's own.
OPEN = frozenset({"parameters", "schema", "metadata", "logit_bias"})


def members(value: dict[str, Any]) -> Iterator[str]:
    """But for the `type` that names the whole."""
    for name, inner in value.items():
        if name != "type" or len(value) == 1:
            yield from paths(name, inner)


def paths(name: str, value: Any) -> Iterator[str]:
    objects = [] if name in UNREAD | OPEN else [each for each in (value if isinstance(value, list) else [value]) if each]
    objects = [each for each in objects if isinstance(each, dict)]
    if not objects:
        yield name
    for each in objects:
        yield from (f"{name}.{path}" for path in members(each))
