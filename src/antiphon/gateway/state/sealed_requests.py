"""The request of a background response as it waits in the store: sealed, if it has secrets of its tools."""

from antiphon.core.toolbox.secrets import has_secrets
from antiphon.errors import ApiError
from antiphon.sealed_text import Sealer
from antiphon.wire.responses import CreateResponse

# A body is a JSON object, and begins with a brace, or with white space.
MARK = b"sealed:"


def to_stored_request(body: bytes, request: CreateResponse, sealer: Sealer) -> bytes:
    return MARK + sealer.seal(body.decode("utf-8", "replace")).encode() if has_secrets(request) else body


def from_stored_request(stored: bytes, sealer: Sealer) -> bytes:
    if not stored.startswith(MARK):
        return stored
    body = sealer.open(stored.removeprefix(MARK).decode("utf-8", "replace"))
    if body is None:
        raise ApiError("The stored request cannot be read: it was sealed with another key.", code="stored_request_unreadable")
    return body.encode()
