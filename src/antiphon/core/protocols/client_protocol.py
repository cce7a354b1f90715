"""A client protocol: how a request is read, and how events are written. A new one is one of these, and a route."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from antiphon.core.events.encode import Encoder, MessageEncoder, SseEncoder
from antiphon.core.protocols.responses.limits import RequestLimits
from antiphon.core.protocols.responses.read import body_to_request, message_to_request
from antiphon.wire.responses import CreateResponse

Channel = Literal["http", "websocket", "background", "compact"]


class ClientProtocol(NamedTuple):
    # The request, and the names of the fields that are not part of the API.
    read: Callable[[bytes, RequestLimits], tuple[CreateResponse, list[str]]]
    # One encoder for each stream.
    make_encoder: Callable[[], Encoder]
    channel: Channel = "http"


RESPONSES = ClientProtocol(body_to_request, SseEncoder)
RESPONSES_WEBSOCKET = ClientProtocol(message_to_request, MessageEncoder, "websocket")
# Those whose bodies are requests of the Responses API.
PROTOCOLS = (RESPONSES, RESPONSES_WEBSOCKET)
