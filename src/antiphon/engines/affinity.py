"""Which requests belong together: those of a conversation are sent to one engine, whose prompt cache has its beginning."""

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from antiphon.core.request_fields import conversation_of
from antiphon.wire.responses import CreateResponse

# In which routers in front of several engines look for the key of a conversation.
ROUTING_HEADERS = ("x-session-id", "X-SMG-Routing-Key", "X-Dynamo-Session-ID")
NO_ROUTING: Mapping[str, str] = MappingProxyType({})
# A conversation is known by so many of its first items, and by so many bytes of each: the rest of it changes.
LEADING_ITEMS = 2
LEADING_BYTES = 4096


def affinity_key(request: CreateResponse, items: Sequence[Mapping[str, Any]]) -> str:
    """The same for every request of a conversation. `items`: all of them, with the history before the request's own."""
    return request.prompt_cache_key or conversation_of(request) or _leading(request, items)


def _leading(request: CreateResponse, items: Sequence[Mapping[str, Any]]) -> str:
    digest = hashlib.blake2b((request.instructions or "")[:LEADING_BYTES].encode(errors="surrogatepass"), digest_size=16)
    for item in items[:LEADING_ITEMS]:
        digest.update(msgspec.json.encode([item.get("role"), item.get("content")])[:LEADING_BYTES])
    return digest.hexdigest()


def routing_headers(key: str) -> Mapping[str, str]:
    return dict.fromkeys(ROUTING_HEADERS, key)
