"""Antiphon: OpenAI's Responses API in front of any Chat Completions engine.

As a program it is a server: `antiphon serve`. As a library it is the `Exchange`, which does no I/O: docs/library.md. What is
named in `__all__` is the library; everything else may change.
"""

__version__ = "0.1.0"

from antiphon import dialects, errors
from antiphon.core.check_work import CheckOutcome, CheckWork, run_check
from antiphon.core.dialect import Dialect
from antiphon.core.environment import Environment
from antiphon.core.exchange import Exchange
from antiphon.core.failures import http_answer_to_error
from antiphon.core.fast_path import AnyEvent, PlainDelta, expand
from antiphon.core.knowledge import EngineKnowledge, Model
from antiphon.core.request import chat_to_bytes
from antiphon.core.sealed_text import Sealer
from antiphon.core.sse import MessageEncoder, SseEncoder
from antiphon.core.steps import Ask, Check, Compact, Count, Done, Estimate, RunTools, Step, ToolCall
from antiphon.core.sync_run import run_exchange
from antiphon.core.tools import ToolResult
from antiphon.core.usage import Uncounted
from antiphon.core.validation import body_to_request
from antiphon.gateway.ids import new_id
from antiphon.wire import events
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse, Response, Usage

__all__ = [
    "AnyEvent",
    "Ask",
    "ChatRequest",
    "Check",
    "CheckOutcome",
    "CheckWork",
    "Compact",
    "Count",
    "CreateResponse",
    "Dialect",
    "Done",
    "EngineKnowledge",
    "Environment",
    "Estimate",
    "Exchange",
    "MessageEncoder",
    "Model",
    "PlainDelta",
    "Response",
    "RunTools",
    "Sealer",
    "SseEncoder",
    "Step",
    "ToolCall",
    "ToolResult",
    "Uncounted",
    "Usage",
    "body_to_request",
    "chat_to_bytes",
    "dialects",
    "errors",
    "events",
    "expand",
    "http_answer_to_error",
    "new_id",
    "run_check",
    "run_exchange",
]
