"""The trace that a request belongs to, as W3C Trace Context has it: two headers, which an engine gets as the client sent them.

They follow the tasks of a request by themselves. Where traces are sent, the second hop is the gateway's own, and the headers
say so (`antiphon.server.traces`).
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar

PARENT, STATE = "traceparent", "tracestate"
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


def headers_to_trace(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Of a request. What is not as it should be is left out: it begins no trace, and breaks no request."""
    if PARENT not in headers:
        return NO_TRACE
    parent, state = headers.get(PARENT, "").strip(), headers.get(STATE, "").strip()
    if len(parent) > LONGEST_PARENT or not _PARENT.fullmatch(parent):
        return NO_TRACE
    is_plain = state.isascii() and state.isprintable() and 0 < len(state) <= LONGEST_STATE
    return {PARENT: parent, STATE: state} if is_plain else {PARENT: parent}
