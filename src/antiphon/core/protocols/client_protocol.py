"""A client protocol: how a client's request is read, and how all that it gets is written.

Inside, there is one format: a protocol reads its requests to those of the Responses API, and writes the events and the response
that come of them in its own form. A new protocol is a subclass of `ClientProtocol`, and its row in `PROTOCOLS` (`table.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from msgspec import UNSET

from antiphon.core.events.encode import Encoder
from antiphon.core.events.json_pieces import JsonPieces
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse, ReasoningItem, Response

Channel = Literal["http", "websocket", "background", "compact", "batch"]

JSON = "application/json"
EVENT_STREAM = "text/event-stream; charset=utf-8"


class ReadRequest(NamedTuple):
    """A request as it was read, whatever protocol it came in."""

    request: CreateResponse
    # The names of the fields that the protocol does not have. They are left out, and a notice names them.
    unknown: Sequence[str] = ()
    # What else was changed or left out, a line each.
    notices: Sequence[str] = ()
    # It goes to the engine as it came, and so comes the answer. Of `request`, nothing but the model counts then.
    passes: bool = False
    # What the protocol alone has to know when it answers, of whatever type it likes: its `encoder` and `whole` get it.
    facts: Any = None


class ErrorAnswer(NamedTuple):
    status: int
    body: bytes
    # With the `Content-Type` of the body.
    headers: Mapping[str, str]


class ClientProtocol(ABC):
    """One object serves all requests, so it keeps nothing of any of them. What a stream has to remember is in its encoder.

    Background responses can be fetched in the Responses API only: `background` is ignored in the requests of other protocols.
    """

    name: ClassVar[str]
    # Where its requests are sent: a path → the HTTP method. What begins with /v1 is also served under the other prefixes
    # (`server/paths.py`). Errors of all that is sent there, or below, are the protocol's own.
    paths: ClassVar[Mapping[str, str]]
    # The first one of them: it stands for the others in the inspector.
    path: ClassVar[str]
    # Headers, in lower case, that only clients of this protocol send: they get its errors wherever their requests go.
    own_headers: ClassVar[frozenset[str]] = frozenset()
    # A header, in lower case, that may have the key: beside `Authorization: Bearer`, and `api-key`.
    key_header: ClassVar[str | None] = None
    # The header of an answer in which its clients look for the id of their request, beside `x-request-id`.
    id_header: ClassVar[str | None] = None
    # The `Content-Type` of an answer that is not streamed, and of one that is.
    whole_type: ClassVar[str] = JSON
    stream_type: ClassVar[str] = EVENT_STREAM
    # Whether its bodies are JSON. What is not is shown as the text that it is, also if it could be read as JSON.
    reads_json: ClassVar[bool] = True
    # In the log, the metrics and the inspector.
    channel: ClassVar[Channel] = "http"
    # Its bodies are requests of the Responses API: they are recorded and queued as they were sent.
    is_responses: ClassVar[bool] = False
    # Some of its requests may go to an engine as they came. Its answers say whether theirs did.
    may_pass: ClassVar[bool] = False
    # Its requests get what they ask for, thoughts as they are. Unless `gets_help`, small models get no help, and none its own
    # sampling.
    is_plain: ClassVar[bool] = False
    gets_help: bool = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.path = next(iter(cls.paths))

    @abstractmethod
    def read(self, body: bytes, headers: Mapping[str, str], limits: RequestLimits, owner: str = "") -> ReadRequest:
        """Called once for each request; for a large body, in a thread. Raises InvalidRequest. It keeps the limits itself:
        `check_request` of the Responses protocol does so for a request that has been read. `owner`: the name of its key."""

    @abstractmethod
    def encoder(self, request: CreateResponse, facts: Any) -> Encoder:
        """A new one for each stream, which answers this request. It gets every event, also that of a failure in the middle
        (`response.failed`). What it returns nothing for is not sent; for a heartbeat that has no form of its own, `heartbeat()`
        is."""

    @abstractmethod
    def whole(self, response: Response, request: CreateResponse, facts: Any) -> bytes | JsonPieces:
        """The answer to a request that does not ask for a stream."""

    def in_own_words(self, text: str, facts: Any) -> str:
        """A notice, or the message of an error, about a request that was read: with the names and places that its client has
        for what it was read into."""
        return text

    @abstractmethod
    def error(self, error: ApiError, request_id: str = "") -> ErrorAnswer:
        """The answer to a request that fails before its stream begins, whatever fails: also one that no route has seen. What
        is not valid HTTP has no path, and gets the errors of the first protocol. What fails later is an event, which the
        encoder gets. An error may have no `code`; its `kind` is always there. `request_id`: "" if there is none."""


# ---- what the protocols beside the Responses API share ---------------------------------------------------------------

# The code of a failed response → the type of its error, where OpenAI's and Anthropic's APIs have the same.
EVENT_TYPES: Mapping[str, str] = {
    "rate_limit_exceeded": "rate_limit_error",
    "context_length_exceeded": "invalid_request_error",
    "invalid_prompt": "invalid_request_error",
}


def thought_of(item: ReasoningItem) -> str:
    """The text of a thought, or its summary."""
    parts = item.summary if item.content is UNSET else item.content
    return "".join(part.text for part in parts)
