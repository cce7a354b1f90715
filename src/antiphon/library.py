"""The names of the library, which `antiphon` exports. They are imported when the first of them is used."""

from antiphon import dialects as dialects
from antiphon import errors as errors
from antiphon.core.check_work import CheckOutcome as CheckOutcome
from antiphon.core.check_work import CheckWork as CheckWork
from antiphon.core.check_work import run_check as run_check
from antiphon.core.dialect import Dialect as Dialect
from antiphon.core.environment import Environment as Environment
from antiphon.core.exchange import Exchange as Exchange
from antiphon.core.failures import http_answer_to_error as http_answer_to_error
from antiphon.core.fast_path import AnyEvent as AnyEvent
from antiphon.core.fast_path import PlainDelta as PlainDelta
from antiphon.core.fast_path import expand as expand
from antiphon.core.knowledge import EngineKnowledge as EngineKnowledge
from antiphon.core.knowledge import Model as Model
from antiphon.core.request import chat_to_bytes as chat_to_bytes
from antiphon.core.sealed_text import Sealer as Sealer
from antiphon.core.sse import MessageEncoder as MessageEncoder
from antiphon.core.sse import SseEncoder as SseEncoder
from antiphon.core.steps import (
    Ask as Ask,
)
from antiphon.core.steps import (
    Check as Check,
)
from antiphon.core.steps import (
    Compact as Compact,
)
from antiphon.core.steps import (
    Count as Count,
)
from antiphon.core.steps import (
    Done as Done,
)
from antiphon.core.steps import (
    Estimate as Estimate,
)
from antiphon.core.steps import (
    RunTools as RunTools,
)
from antiphon.core.steps import (
    Step as Step,
)
from antiphon.core.steps import (
    ToolCall as ToolCall,
)
from antiphon.core.sync_run import run_exchange as run_exchange
from antiphon.core.tools import ToolResult as ToolResult
from antiphon.core.usage import Uncounted as Uncounted
from antiphon.core.validation import body_to_request as body_to_request
from antiphon.gateway.ids import new_id as new_id
from antiphon.wire import events as events
from antiphon.wire.chat import ChatRequest as ChatRequest
from antiphon.wire.responses import CreateResponse as CreateResponse
from antiphon.wire.responses import Response as Response
from antiphon.wire.responses import Usage as Usage
