"""Which requests belong together: those of a conversation are sent to one engine, whose prompt cache has its beginning.

A request is known by its `prompt_cache_key`; else by its conversation; else by how it begins, up to the first message of the
user: that is the same in every later turn, stored or sent again. The key is a digest of that and of the owner. So it shows
nothing of a client to a router, it fits into a header, and nobody gets beside another owner by choosing a key.

And those of a trace, as W3C Trace Context has it: an engine gets its two headers as the client sent them. They follow the tasks
of a request by themselves. Where traces are sent, the second hop is the gateway's own, and the headers say so
(`antiphon.server.traces`).
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from multidict import istr

from antiphon.core.protocols.responses.fields import conversation_of, request_to_items
from antiphon.wire.responses import CreateResponse

# In which routers in front of several engines look for the key of a conversation.
ROUTING_HEADERS = ("x-session-id", "X-SMG-Routing-Key", "X-Dynamo-Session-ID")
NO_ROUTING: Mapping[str, str] = MappingProxyType({})
# How much of a beginning counts: items, and characters of each.
LEADING_ITEMS = 4
LEADING_LENGTH = 4096


def affinity_key(request: CreateResponse, history: Sequence[Mapping[str, Any]], owner: str) -> str:
    """The same for every request of a conversation. `history`: the stored items before the request's own."""
    if request.prompt_cache_key:
        return _digest([owner, "key", request.prompt_cache_key])
    return conversation_key(request, history, owner)


def conversation_key(request: CreateResponse, history: Sequence[Mapping[str, Any]], owner: str) -> str:
    """The same, and another one for each conversation: many may have one `prompt_cache_key`."""
    if request.conversation is not None and (conversation := conversation_of(request)) is not None:
        return _digest([owner, "conversation", conversation])
    parts = [owner, "beginning", (request.instructions or "")[:LEADING_LENGTH]]
    if isinstance(request.input, str) and not history:
        # What is below, for the one message that it stands for.
        parts.append(request.input[:LEADING_LENGTH])
    else:
        _add_beginning(parts, history or request_to_items(request))
    return _digest(parts)


def _digest(parts: Sequence[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _add_beginning(parts: list[str], items: Sequence[Mapping[str, Any]]) -> None:
    """Nothing of an answer: the first turn has none yet."""
    for at, item in enumerate(items[:LEADING_ITEMS]):
        role = item.get("role")
        if role == "system" or role == "developer":
            parts.append(_text(item))
            continue
        # Without a message before it, a history begins with something else, such as a compaction.
        if role == "user" or not at:
            parts.append(_text(item))
        return


def _text(item: Mapping[str, Any]) -> str:
    """The beginning of a content, which may be a text in one turn and a list of parts in the next."""
    content = item.get("content") or item.get("encrypted_content") or ""
    if isinstance(content, str):
        return content[:LEADING_LENGTH]
    parts = content[:LEADING_ITEMS] if isinstance(content, list) else ()
    return "".join(str(_part_value(part))[:LEADING_LENGTH] for part in parts)[:LEADING_LENGTH]


def _part_value(part: Any) -> Any:
    if not isinstance(part, dict):
        return ""
    return next((part[name] for name in ("text", "image_url", "file_id", "file_url", "file_data") if part.get(name)), "")


def routing_headers(key: str | None) -> Mapping[str, str]:
    """In which the key of a conversation is sent to an engine. None: it is not."""
    return dict.fromkeys(ROUTING_HEADERS, key) if key is not None else NO_ROUTING


# Names that are looked up in headers in half the time of a `str`.
PARENT, STATE = istr("traceparent"), istr("tracestate")
# Version, trace, parent and flags. Neither id may be zero, and there is no version ff.
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
# What a server has to pass on at least.
LONGEST_STATE = 512
LONGEST_PARENT = 256

NO_TRACE: Mapping[str, str] = {}
_current: ContextVar[Mapping[str, str]] = ContextVar("trace_headers", default=NO_TRACE)


def trace_headers() -> Mapping[str, str]:
    """For the requests of this task, and of those that it starts from now on."""
    return _current.get()


def set_trace_headers(headers: Mapping[str, str]) -> None:
    _current.set(headers)


def continue_trace(headers: Mapping[str, str]) -> None:
    """That of a request with these headers, if it has one."""
    _current.set(headers_to_trace(headers) if PARENT in headers else NO_TRACE)


def headers_to_trace(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Of a request. What is not as it should be is left out: it begins no trace, and breaks no request."""
    if PARENT not in headers:
        return NO_TRACE
    parent, state = headers.get(PARENT, "").strip(), headers.get(STATE, "").strip()
    if len(parent) > LONGEST_PARENT or not _PARENT.fullmatch(parent):
        return NO_TRACE
    is_plain = state.isascii() and state.isprintable() and 0 < len(state) <= LONGEST_STATE
    return {PARENT: parent, STATE: state} if is_plain else {PARENT: parent}
