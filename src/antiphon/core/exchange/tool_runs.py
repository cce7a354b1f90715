"""The calls that the gateway runs in one response: those that run now, and what came of those before."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from antiphon.core.hosted.hosted_tool import HostedTool
from antiphon.core.hosted.rows import BY_KIND
from antiphon.core.hosted.search_results import ShownResult, to_shown_result
from antiphon.core.items.calls import CallState
from antiphon.core.prompt.stored_form import output_to_stored
from antiphon.core.prompt.truncation import prompt_text, tokens_by_length
from antiphon.core.stream.citations import Sources
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import counted
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import OutputItem, ToolUsage, Usage, UsedContainer

# Of a tool that has no row: an extension brought it.
NO_ROW = HostedTool()

# ---- How much of a tool's result a model gets to read: as much as its context has room for ---------------------------

# Of a model whose context window is not known, in characters.
MOST_CHARACTERS = 100_000
# However little room there is: less would say nothing.
LEAST_CHARACTERS = 1_000
# Results are often JSON, numbers and addresses, which take more tokens than prose.
CHARACTERS_PER_TOKEN = 3
# Of a window, what is left for the answer, unless the request says how long that may be.
ANSWER_SHARE = 4
LEFT_OUT = "\n[{more} of this result were left out here: there is no room for more.]"


def tokens_used(chat: ChatRequest, written: str, usage: Usage | None) -> int:
    """How much of its context a model has used for an answer: as its engine reports it, or by length."""
    if usage is not None:
        return usage.input_tokens + usage.output_tokens
    return tokens_by_length(prompt_text(chat)) + tokens_by_length(written)


def room_for_results(window: int | None, used: int, answer: int | None, calls: int) -> int:
    """How many characters the result of each of these calls may have. All of them together take half of what is left of the
    window, because the model may call again. `used`: tokens. `answer`: the most tokens that the answer may have."""
    if window is None:
        return MOST_CHARACTERS
    kept = min(answer, window // 2) if answer is not None else window // ANSWER_SHARE
    left = max(0, window - used - kept) * CHARACTERS_PER_TOKEN
    return max(LEAST_CHARACTERS, left // 2 // calls)


def bounded(result: ToolResult, room: int) -> ToolResult:
    """The result, with no more text than there is room for. What was cut off is said in its place."""
    more = len(result.output) - room
    if more <= 0:
        return result
    return structs.replace(result, output=result.output[:room] + LEFT_OUT.format(more=counted(more, "character")))


class ToolRuns:
    def __init__(self) -> None:
        self._running: dict[str, CallState] = {}
        # How much of each result there is room for.
        self._room = 0
        # The calls that ran, each with what the model read of it.
        self._ran: list[tuple[CallState, ShownResult]] = []
        # A set that keeps its order.
        self.notices: dict[str, None] = {}

    def begin(self, calls: Sequence[CallState], room: int) -> None:
        self._running = {call.call_id: call for call in calls}
        self._room = room

    @property
    def calls(self) -> list[CallState]:
        """Those that have a result."""
        return [call for call, _ in self._ran]

    @property
    def are_over(self) -> bool:
        return not self._running

    def abandon(self) -> None:
        """What comes of the calls that run now is of no use any more."""
        self._running.clear()

    def add_result(self, call_id: str, result: ToolResult, sources: Sources) -> CallState | None:
        """The call that has this result now. None: it came too late. `sources`: get what the result lets the model cite."""
        call = self._running.pop(call_id, None)
        if call is None:
            return None
        tool = BY_KIND.get(call.identity.kind, NO_ROW)
        if tool.files is not None and (container := tool.files(result)) is not None:
            sources.add_files(container.container_id, container.files)
        first = sources.next_number
        read = result if tool.number is None else tool.number(result, sources, self._room)
        call.result = bounded(read, self._room)
        self._ran.append((call, to_shown_result(call.result.output, sources.since(first))))
        if result.notice:
            self.notices[result.notice] = None
        return call

    def to_stored(self, output: Sequence[OutputItem]) -> list[OutputItem]:
        """The items of the response as they are stored: the calls have what the model read of them."""
        return output_to_stored(output, {call.item.id: result for call, result in self._ran if call.closed})


def calls_to_container(calls: Sequence[CallState]) -> UsedContainer | None:
    """Where the last of them ran code. None: nowhere, or that is not known."""
    for call in reversed(calls):
        files = BY_KIND.get(call.identity.kind, NO_ROW).files
        used = files(call.result) if files is not None and call.result is not None else None
        if used is not None and used.expires_at:
            return UsedContainer(used.container_id, used.expires_at)
    return None


# ---- What the tools that the gateway runs were used for, counted as OpenAI counts it ---------------------------------


def calls_to_tool_usage(calls: Iterable[CallState]) -> ToolUsage:
    """Calls that failed do not count."""
    usage = ToolUsage()
    for call in calls:
        if call.result is not None and not call.result.failed:
            count = BY_KIND.get(call.identity.kind, NO_ROW).count
            if count is not None:
                count(usage, call.identity, call.result)
    return usage
