"""A synchronous run of an exchange: no event loop, no processes. For recordings, tests and small programs."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.events.encode import SseEncoder
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, AwaitProbe, Check, Compact, Count, Done, Estimate, ListTools, RunTools, ToolCall
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.truncation import prompt_text, tokens_by_length
from antiphon.core.toolbox.mcp_servers import Listing, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse

# Asks the engine: the pieces of its body, split in any way. An error before the first piece: the engine rejected it.
AskEngine = Callable[[Ask], Iterable[bytes]]
# Runs slow work in place. What reads documents is not part of the core, so the caller hands it in.
RunCheck = Callable[[CheckWork], CheckOutcome]
RunTool = Callable[[ToolCall], ToolResult]
ListServer = Callable[[McpServer], Listing]


def no_tools(call: ToolCall) -> ToolResult:
    return ToolResult(f"There is no tool {call.name}.", failed=True)


def no_servers(server: McpServer) -> Listing:
    return Listing(error=McpListError("No MCP server is asked here."))


def run_exchange(
    exchange: Exchange,
    ask: AskEngine,
    run_check: RunCheck,
    run_tool: RunTool = no_tools,
    list_tools: ListServer = no_servers,
) -> Iterator[AnyEvent]:
    """Every event, to the terminal one. `ask` posts a chat request and returns, or yields, the pieces of the engine's body; it
    raises one of `antiphon.errors`. Usage that the engine does not report stays null; prompts are counted by their length."""
    yield from exchange.start()
    while not isinstance(step := exchange.step, Done):
        match step:
            case Ask():
                yield from _answer(exchange, ask, run_check, step)
            case AwaitProbe():
                # Nothing is probed here.
                yield from exchange.probed(exchange.knowledge)
            case Check():
                yield from exchange.checked(run_check(step.work))
            case ListTools():
                for server in step.servers:
                    yield from exchange.listed(server.label, list_tools(server))
            case RunTools():
                for call in step.calls:
                    yield from exchange.tool_result(call.id, run_tool(call))
            case Estimate():
                yield from exchange.estimated(())
            case Count():
                yield from exchange.counted(tokens_by_length(prompt_text(step.chat)))
            case Compact():
                assert exchange.compaction is not None
                deque(run_exchange(exchange.compaction, ask, run_check, run_tool), maxlen=0)
                yield from exchange.compacted()
    yield from exchange.end()


def _answer(exchange: Exchange, ask: AskEngine, run_check: RunCheck, step: Ask) -> Iterator[AnyEvent]:
    try:
        pieces = iter(ask(step))
        # A generator asks the engine only now.
        first = next(pieces, b"")
    except ApiError as rejected:
        yield from exchange.refused(rejected)
        return
    error: ApiError | None = None
    try:
        for piece in itertools.chain((first,), pieces):
            yield from exchange.receive(piece)
            while exchange.check is not None:
                yield from exchange.checked(run_check(exchange.check))
            if not exchange.reading:
                break
    except ApiError as broken:
        error = broken
    yield from exchange.finish(error)


# ---- one recorded answer of an engine → the stream that it becomes ----------------------------------------------------

PLAIN = Dialect(name="plain")
REQUEST = CreateResponse(model="replay", input="…", stream=True, store=False)


def replay(pieces: Iterable[bytes], run_check: RunCheck, request: CreateResponse = REQUEST, dialect: Dialect = PLAIN) -> bytes:
    """The recording is one engine answer. Ids and times are counted: the same recording gives the same bytes."""
    numbers = itertools.count(1)
    environment = Environment(new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 0)
    exchange = Exchange(request, [EngineKnowledge(dialect)], environment, response_id="resp_replay", may_ask_again=False)
    return to_stream(run_exchange(exchange, lambda step: pieces, run_check))


def to_stream(events: Iterable[AnyEvent], *, ended: bool = True) -> bytes:
    encoder = SseEncoder()
    return b"".join((*map(encoder.encode, events), *(encoder.end if ended else ())))
