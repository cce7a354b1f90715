"""What the tools that the gateway runs were used for, counted as OpenAI counts it."""

from collections.abc import Iterable

from antiphon.core.hosted.search_results import searches_of
from antiphon.core.hosted.web_search_calls import KIND, SEARCH
from antiphon.core.items.calls import CallState
from antiphon.wire.responses import ToolUsage, WebSearchUsage


def calls_to_tool_usage(calls: Iterable[CallState]) -> ToolUsage:
    """Pages that were opened do not count, nor do searches that failed. One call may have made several."""
    ran = (call for call in calls if call.result is not None and not call.result.failed)
    results = (call.result for call in ran if (call.native.kind, call.native.name) == (KIND, SEARCH))
    return ToolUsage(web_search=WebSearchUsage(num_requests=sum(searches_of(result) for result in results if result)))
