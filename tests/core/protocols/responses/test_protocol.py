"""The Responses API as a client protocol."""

import msgspec

from antiphon.core.events.encode import STILL_HERE
from antiphon.core.events.json_pieces import LONG_TEXT, JsonPieces
from antiphon.core.events.lifecycle import Lifecycle, Numbering
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS
from antiphon.core.protocols.responses.protocol import RESPONSES, RESPONSES_WEBSOCKET
from antiphon.errors import MethodNotAllowed, RateLimited
from antiphon.wire.responses import Response

MESSAGE = b'{"type": "response.create", "input": "Hi", "background": true, "colour": "red"}'


def response() -> Response:
    return Response(id="resp_1", created_at=1, model="mock")


def test_fields_that_it_does_not_have_are_named() -> None:
    read = RESPONSES.read(MESSAGE, {}, DEFAULT_LIMITS)
    assert (read.request.input, read.request.background, read.unknown) == ("Hi", True, ["colour", "type"])


def test_a_message_is_always_streamed_and_never_in_the_background() -> None:
    read = RESPONSES_WEBSOCKET.read(MESSAGE, {}, DEFAULT_LIMITS)
    assert (read.request.stream, read.request.background, read.unknown) == (True, None, ["background", "colour"])


def test_a_long_answer_is_written_in_pieces() -> None:
    made = response()
    assert RESPONSES.whole(made) == msgspec.json.encode(made)
    made.output_text = "x" * 2 * LONG_TEXT
    pieces = RESPONSES.whole(made)
    assert isinstance(pieces, JsonPieces)
    assert b"".join(pieces) == msgspec.json.encode(made)


def test_an_error_has_openais_form() -> None:
    status, body, headers = RESPONSES.error(MethodNotAllowed("No.", {"POST"}))
    error = {"message": "No.", "type": "invalid_request_error", "param": None, "code": "method_not_allowed"}
    assert (status, msgspec.json.decode(body)) == (405, {"error": error})
    assert headers == {"Allow": "POST", "x-should-retry": "false", "Content-Type": "application/json"}


def test_an_error_on_a_websocket_is_a_message() -> None:
    error = RateLimited("Slow down.")
    message = {"type": "error", "status": 429, **error.envelope()}
    assert msgspec.json.decode(RESPONSES_WEBSOCKET.error_message(error, {})) == message
    headers = {"retry-after": "3"}
    assert msgspec.json.decode(RESPONSES_WEBSOCKET.error_message(error, headers)) == {**message, "headers": headers}


def test_a_sign_of_life_is_an_event_as_long_as_the_response_runs_and_a_comment_where_it_is_followed() -> None:
    made = response()
    lifecycle = Lifecycle(made, Numbering())
    lifecycle.start()
    for protocol in (RESPONSES, RESPONSES_WEBSOCKET):
        frame = protocol.encoder().encode(lifecycle.heartbeat())
        assert b'"type":"response.in_progress"' in frame
    assert (RESPONSES.encoder().heartbeat(), RESPONSES_WEBSOCKET.encoder().heartbeat()) == (STILL_HERE, b"")
