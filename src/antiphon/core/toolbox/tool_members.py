"""What a client may ask of a function or a custom tool that is not done here. It is echoed, and the notice says so."""

from collections.abc import Iterable
from typing import Any

from antiphon.core.toolbox.echo import flat

WITHOUT_EFFECT = {
    "defer_loading": "the model sees the tool from the start",
    "async": "the result of a call is expected in the next request",
    "output_schema": "the model does not see it",
}
# More would make the header too long.
MOST_NAMES = 3


def members_without_effect(tools: Iterable[dict[str, Any]], *, defers: bool = False) -> Iterable[str]:
    """`defers`: tools with `defer_loading` are hidden until they are found."""
    given = [flat(tool) for tool in tools]
    for member, instead in WITHOUT_EFFECT.items():
        if defers and member == "defer_loading":
            continue
        names = [str(tool.get("name")) for tool in given if tool.get(member)]
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            yield f"{member} of {', '.join(names[:MOST_NAMES])}{more} has no effect: {instead}"
