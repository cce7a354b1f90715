"""Which endpoint is told of what, and how its messages are signed: as standardwebhooks.com has it, and the SDKs verify it."""

import base64
import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import json

from antiphon.store.account_records import Delivery

# How a secret begins that is written in base64.
ENCODED = "whsec_"
# What may be reported. None of these in the settings: all.
EVENTS = (
    *(f"response.{end}" for end in ("completed", "failed", "incomplete", "cancelled")),
    *(f"batch.{end}" for end in ("completed", "failed", "expired", "cancelled")),
)


class Endpoint(NamedTuple):
    name: str
    url: str
    secret: bytes
    # Empty: all.
    events: Sequence[str] = ()
    # The owners whose events it gets. Empty: all.
    keys: Sequence[str] = ()

    def wants(self, event: str, owner: str) -> bool:
        return (not self.events or event in self.events) and (not self.keys or owner in self.keys)


class Webhooks:
    def __init__(self, endpoints: Sequence[Endpoint] = ()) -> None:
        self.endpoints = endpoints

    def messages(self, event: str, id: str, owner: str, at: float) -> tuple[Delivery, ...]:
        """About the end of this object: one for each endpoint that wants it. They have the same ids however often they are
        made."""
        return tuple(
            Delivery(f"evt_{id}_{each.name}", each.name, int(at), _body(event, f"evt_{id}_{each.name}", id, int(at)))
            for each in self.endpoints
            if each.wants(event, owner)
        )


NO_WEBHOOKS = Webhooks()


def _body(event: str, event_id: str, id: str, at: int) -> bytes:
    body: dict[str, Any] = {"id": event_id, "object": "event", "created_at": at, "type": event, "data": {"id": id}}
    return json.encode(body)


def secret_to_key(secret: str) -> bytes:
    """Raises ValueError."""
    if secret.startswith(ENCODED):
        return base64.b64decode(secret.removeprefix(ENCODED), validate=True)
    return secret.encode()


def signed_headers(key: bytes, id: str, at: int, body: bytes) -> Mapping[str, str]:
    signature = hmac.new(key, b"%s.%d.%s" % (id.encode(), at, body), sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
