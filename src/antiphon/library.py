"""The names of the library, which `antiphon` exports. They are imported when the first of them is used."""

from collections.abc import Iterator

from antiphon import errors as errors
from antiphon.core.checks.work import CheckOutcome as CheckOutcome
from antiphon.core.checks.work import CheckWork as CheckWork
from antiphon.core.events.encode import MessageEncoder as MessageEncoder
from antiphon.core.events.encode import SseEncoder as SseEncoder
from antiphon.core.events.plain_deltas import AnyEvent as AnyEvent
from antiphon.core.events.plain_deltas import PlainDelta as PlainDelta
from antiphon.core.events.plain_deltas import expand as expand
from antiphon.core.exchange import sync_run
from antiphon.core.exchange.environment import Environment as Environment
from antiphon.core.exchange.exchange import Exchange as Exchange
from antiphon.core.exchange.steps import Ask as Ask
from antiphon.core.exchange.steps import AwaitProbe as AwaitProbe
from antiphon.core.exchange.steps import Check as Check
from antiphon.core.exchange.steps import Compact as Compact
from antiphon.core.exchange.steps import Count as Count
from antiphon.core.exchange.steps import Done as Done
from antiphon.core.exchange.steps import Estimate as Estimate
from antiphon.core.exchange.steps import ListTools as ListTools
from antiphon.core.exchange.steps import RunTools as RunTools
from antiphon.core.exchange.steps import Step as Step
from antiphon.core.exchange.steps import ToolCall as ToolCall
from antiphon.core.items.usage import Uncounted as Uncounted
from antiphon.core.knowledge import dialects as dialects
from antiphon.core.knowledge.dialect import Dialect as Dialect
from antiphon.core.knowledge.failures import http_answer_to_error as http_answer_to_error
from antiphon.core.knowledge.knowledge import EngineKnowledge as EngineKnowledge
from antiphon.core.knowledge.knowledge import Model as Model
from antiphon.core.protocols.responses.read import body_to_request as body_to_request
from antiphon.core.stream.chat_stream import chat_to_bytes as chat_to_bytes
from antiphon.core.stream.file_links import CodeFile as CodeFile
from antiphon.core.toolbox.mcp_servers import Listing as Listing
from antiphon.core.toolbox.mcp_servers import McpListError as McpListError
from antiphon.core.toolbox.mcp_servers import McpServer as McpServer
from antiphon.core.toolbox.tools import ToolResult as ToolResult
from antiphon.ids import new_id as new_id
from antiphon.sealing import Sealer as Sealer
from antiphon.wire import events as events
from antiphon.wire.chat import ChatRequest as ChatRequest
from antiphon.wire.hosted_items import McpTool as McpTool
from antiphon.wire.responses import CreateResponse as CreateResponse
from antiphon.wire.responses import InputTokensDetails as InputTokensDetails
from antiphon.wire.responses import OutputTokensDetails as OutputTokensDetails
from antiphon.wire.responses import Response as Response
from antiphon.wire.responses import Usage as Usage


def run_check(work: CheckWork) -> CheckOutcome:
    """Runs the work in place. There is no limit to the time that something of a client may take."""
    # Imported here: the libraries are large, and a program that hands the work on never needs them.
    from antiphon.gateway.runs import check_process

    return check_process.run_check(work)


def run_exchange(
    exchange: Exchange,
    ask: sync_run.AskEngine,
    run_tool: sync_run.RunTool = sync_run.no_tools,
    list_tools: sync_run.ListServer = sync_run.no_servers,
) -> Iterator[AnyEvent]:
    """Every event of the exchange, to the terminal one. `ask` posts a chat request and returns, or yields, the pieces of the
    engine's body; it raises one of `antiphon.errors`. Checks are run in place, by `run_check()`."""
    return sync_run.run_exchange(exchange, ask, run_check, run_tool, list_tools)
