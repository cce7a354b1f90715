"""The APIs of engines: how a request is written, how an answer and a failure are read. One row for each.

A dialect names the row of its engine. The deltas that an answer becomes are the same for all of them.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from antiphon.core.knowledge.failures import http_answer_to_failure
from antiphon.core.stream.answer_stream import AnswerStream
from antiphon.core.stream.chat_stream import ChatStream, chat_to_bytes
from antiphon.errors import EngineFailure
from antiphon.wire.chat import ChatRequest


class EngineProtocol(Struct, frozen=True):
    # Where requests are posted.
    path: str
    to_bytes: Callable[[ChatRequest], bytes]
    # Made for each answer.
    reader: type[AnswerStream]
    # By the status and the body of an answer whose status is not 200.
    failure: Callable[[int, bytes], EngineFailure]


CHAT_COMPLETIONS = EngineProtocol("/v1/chat/completions", chat_to_bytes, ChatStream, http_answer_to_failure)

# By `Dialect.protocol`.
PROTOCOLS: Mapping[str, EngineProtocol] = {"chat_completions": CHAT_COMPLETIONS}
