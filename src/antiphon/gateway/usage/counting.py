"""What a response has used, and what an answer that was passed through says that it has."""

import re
from collections import deque
from json import JSONDecodeError, JSONDecoder
from typing import Any, get_args

from antiphon.store.account_records import Counts
from antiphon.wire.chat import MOST_TOKENS
from antiphon.wire.responses import OutputItem, Response

# How many bytes at the end of an answer are searched: engines write usage last, or nearly.
TAIL = 16 * 1024
# An estimate where the engine does not say.
BYTES_PER_TOKEN = 4
# The calls among the items.
_CALLS = frozenset(each for each in get_args(OutputItem) if str(each.__struct_config__.tag).endswith("_call"))
_USAGE, _OBJECT = b'"usage"', re.compile(rb"\s*:\s*\{")
_EVENT = b"data:"
_decode = JSONDecoder().raw_decode


def response_to_counts(response: Response) -> Counts:
    usage, failures = response.usage, int(response.status == "failed")
    calls = sum([type(item) in _CALLS for item in response.output])
    if usage is None:
        return Counts(1, failures, tool_calls=calls)
    cached, reasoning = usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens
    return Counts(1, failures, usage.input_tokens, cached, usage.output_tokens, reasoning, calls)


def estimated_counts(request: bytes, pieces: int) -> Counts:
    """Of an answer that broke off after so many pieces."""
    return Counts(1, input_tokens=len(request) // BYTES_PER_TOKEN, output_tokens=pieces)


class PassedAnswer:
    """An answer of an engine as it passes: `receive()` its pieces, then `counts()`."""

    def __init__(self, request: bytes, *, failed: bool) -> None:
        self._request = request
        self._failed = failed
        # The last pieces, as long as the tail together, or a little longer.
        self._last: deque[bytes] = deque()
        self._size = 0
        # In the pieces before them.
        self._events = 0

    def receive(self, piece: bytes) -> None:
        """Called for each piece of each answer: what it is about is found out at the end."""
        self._last.append(piece)
        self._size += len(piece)
        while self._size - len(self._last[0]) >= TAIL:
            before = self._last.popleft()
            self._size -= len(before)
            self._events += before.count(_EVENT)

    def counts(self) -> Counts:
        if self._failed:
            return Counts(1, failures=1)
        last = b"".join(self._last) if len(self._last) > 1 else self._last[0] if self._last else b""
        tail = last[-TAIL:]
        at = tail.rfind(_USAGE)
        while at >= 0:
            # An engine may write null behind what it has reported.
            if (begins := _OBJECT.match(tail, at + len(_USAGE))) and (reported := _to_object(tail[begins.end() - 1 :])):
                return _reported_counts(reported)
            at = tail.rfind(_USAGE, 0, at)
        return estimated_counts(self._request, self._events + last.count(_EVENT))


def _to_object(text: bytes) -> dict[str, Any] | None:
    try:
        found = _decode(text.decode(errors="replace"))[0]
    except (JSONDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _reported_counts(usage: dict[str, Any]) -> Counts:
    return Counts(
        1,
        0,
        _number(usage, ("prompt_tokens", "input_tokens", "total_tokens")),
        _number(usage.get("prompt_tokens_details"), ("cached_tokens",)),
        _number(usage, ("completion_tokens", "output_tokens")),
        _number(usage.get("completion_tokens_details"), ("reasoning_tokens",)),
    )


def _number(found: Any, names: tuple[str, ...]) -> int:
    """The first of these members that is a number. An engine may report anything, and what is counted never falls."""
    if isinstance(found, dict):
        for name in names:
            if isinstance(value := found.get(name), int):
                return min(max(0, value), MOST_TOKENS)
    return 0
