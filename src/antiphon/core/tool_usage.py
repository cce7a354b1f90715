"""What the tools that the gateway runs were used for, counted as OpenAI counts it."""

from collections.abc import Iterable

from antiphon.core.calls import CallState
from antiphon.wire.responses import ToolUsage, WebSearchUsage

SEARCH = ("web_search", "web_search")


def calls_to_tool_usage(calls: Iterable[CallState]) -> ToolUsage:
    """Pages that were opened do not count, nor do searches that failed."""
    ran = (call for call in calls if call.result is not None and not call.result.failed)
    searches = sum((call.native.kind, call.native.name) == SEARCH for call in ran)
    return ToolUsage(web_search=WebSearchUsage(num_requests=searches))
