"""The Responses API as a client protocol: over HTTP, and over a WebSocket."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from antiphon.core.events.encode import Encoder, MessageEncoder, SseEncoder
from antiphon.core.events.json_pieces import JsonPieces, is_one_short_text, long_json
from antiphon.core.protocols.client_protocol import JSON, Channel, ClientProtocol, ErrorAnswer, ReadRequest
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.core.protocols.responses.read import body_to_request, message_to_request
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse, Response

COMPACT_PATH = "/v1/responses/compact"


class ResponsesProtocol(ClientProtocol):
    name = "responses"
    paths: ClassVar[Mapping[str, str]] = {"/v1/responses": "POST"}
    is_responses = True

    def read(self, body: bytes, headers: Mapping[str, str], limits: RequestLimits, owner: str = "") -> ReadRequest:
        return ReadRequest(*body_to_request(body, limits))

    def encoder(self, request: CreateResponse | None = None, facts: None = None) -> Encoder:
        return SseEncoder()

    def whole(self, response: Response, request: CreateResponse | None = None, facts: None = None) -> bytes | JsonPieces:
        long = None if is_one_short_text(response) else long_json(response)
        return long or msgspec.json.encode(response)

    def error(self, error: ApiError, request_id: str = "") -> ErrorAnswer:
        return ErrorAnswer(error.status, msgspec.json.encode(error.envelope()), {**error.headers, "Content-Type": JSON})


class ResponsesWebSocket(ResponsesProtocol):
    """Each message of the client is a request, and each event is a message."""

    name = "responses over a WebSocket"
    channel: ClassVar[Channel] = "websocket"

    def read(self, body: bytes, headers: Mapping[str, str], limits: RequestLimits, owner: str = "") -> ReadRequest:
        return ReadRequest(*message_to_request(body, limits))

    def encoder(self, request: CreateResponse | None = None, facts: None = None) -> Encoder:
        return MessageEncoder()

    def error_message(self, error: ApiError, headers: Mapping[str, str]) -> bytes:
        """An error on a connection that stays open. `headers`: what an HTTP answer would have."""
        message: dict[str, Any] = {"type": "error", "status": error.status, **error.envelope()}
        return msgspec.json.encode(message | {"headers": headers} if headers else message)


RESPONSES = ResponsesProtocol()
RESPONSES_WEBSOCKET = ResponsesWebSocket()
