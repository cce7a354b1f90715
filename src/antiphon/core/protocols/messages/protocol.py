"""Anthropic Messages as a client protocol."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec
from msgspec import UNSET

from antiphon.core.events.encode import Encoder
from antiphon.core.protocols.client_protocol import JSON, ClientProtocol, ErrorAnswer, ReadRequest
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse, Response

if TYPE_CHECKING:
    from antiphon.core.protocols.messages.facts import MessageFacts

# What reads and writes messages is imported with the first request of this protocol: many gateways never get one.

COUNT_PATH = "/v1/messages/count_tokens"


class MessagesProtocol(ClientProtocol):
    name = "messages"
    paths: ClassVar[Mapping[str, str]] = {"/v1/messages": "POST"}
    own_headers = frozenset({"anthropic-version"})
    key_header = "x-api-key"
    id_header = "request-id"

    def read(self, body: bytes, headers: Mapping[str, str], limits: RequestLimits, owner: str = "") -> ReadRequest:
        from antiphon.core.protocols.messages.read import body_to_request

        return body_to_request(body, headers, limits)

    def encoder(self, request: CreateResponse, facts: "MessageFacts") -> Encoder:
        from antiphon.core.protocols.messages.encoder import MessagesEncoder

        return MessagesEncoder(request, facts)

    def whole(self, response: Response, request: CreateResponse, facts: "MessageFacts") -> bytes:
        from antiphon.core.protocols.messages.answer import response_to_message

        return msgspec.json.encode(response_to_message(response, request, facts))

    def in_own_words(self, text: str, facts: "MessageFacts") -> str:
        return facts.places.in_own_words(text)

    def error(self, error: ApiError, request_id: str = "") -> ErrorAnswer:
        from antiphon.core.protocols.messages.answer import error_to_details, status_of
        from antiphon.wire.messages import ErrorEvent

        body = msgspec.json.encode(ErrorEvent(error_to_details(error), request_id or UNSET))
        return ErrorAnswer(status_of(error), body, {**error.headers, "Content-Type": JSON})


MESSAGES = MessagesProtocol()
