"""Chat Completions as a client protocol."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec
from msgspec import UNSET

from antiphon.core.events.encode import Encoder
from antiphon.core.protocols.chat.ways import NO_RULES, Rules
from antiphon.core.protocols.client_protocol import JSON, ClientProtocol, ErrorAnswer, ReadRequest
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse, Response

if TYPE_CHECKING:
    from antiphon.core.protocols.chat.places import Places

# What reads and writes chat completions is imported with the first request of this protocol: many gateways never get one.


class ChatProtocol(ClientProtocol):
    name = "chat"
    paths: ClassVar[Mapping[str, str]] = {"/v1/chat/completions": "POST"}
    may_pass = True
    is_plain = True

    def __init__(self, rules: Rules = NO_RULES) -> None:
        self._rules = rules
        self.gets_help = rules.helps

    def read(self, body: bytes, headers: Mapping[str, str], limits: RequestLimits, owner: str = "") -> ReadRequest:
        from antiphon.core.protocols.chat.read import body_to_request

        return body_to_request(body, limits, self._rules, owner)

    def encoder(self, request: CreateResponse, facts: "Places") -> Encoder:
        from antiphon.core.protocols.chat.encoder import ChatEncoder

        return ChatEncoder(request, facts)

    def whole(self, response: Response, request: CreateResponse, facts: "Places") -> bytes:
        from antiphon.core.protocols.chat.answer import response_to_completion, with_extras

        completion = response_to_completion(response, request)
        return msgspec.json.encode(
            completion if response.engine_extras is UNSET else with_extras(completion, response.engine_extras)
        )

    def in_own_words(self, text: str, facts: "Places") -> str:
        return facts.in_own_words(text)

    def error(self, error: ApiError, request_id: str = "") -> ErrorAnswer:
        body = msgspec.json.encode(error.envelope())
        return ErrorAnswer(error.status, body, {**error.headers, "Content-Type": JSON})


CHAT = ChatProtocol()
