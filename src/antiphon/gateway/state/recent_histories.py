"""The responses of one connection, which can be continued there without having been stored."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from antiphon.core.protocols.responses.references import stands_for
from antiphon.gateway.state.record_format import decode_items

# A client continues its latest response, rarely an earlier one.
MOST_RESPONSES = 32
MOST_BYTES = 32 * 1024 * 1024
FEW_IDS = 8


class RecentHistories:
    """Histories by the id of their last response. Within limits: the oldest goes first."""

    def __init__(self, most_responses: int = MOST_RESPONSES, most_bytes: int = MOST_BYTES) -> None:
        self._most_responses = most_responses
        self._most_bytes = most_bytes
        self._histories: dict[str, tuple[bytes, ...]] = {}
        self._size = 0

    def get(self, response: str) -> tuple[bytes, ...]:
        """Lists of items, encoded, from the first response on. Empty: it is not known."""
        return self._histories.get(response, ())

    def find_items(self, ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """The items with these ids, from the latest responses first."""
        wanted = set(ids)
        found: dict[str, dict[str, Any]] = {}
        # Histories share their bytes.
        latest_first = {id(part): part for history in reversed(self._histories.values()) for part in reversed(history)}
        for encoded in latest_first.values():
            if _may_contain(encoded, wanted):
                items = {item["id"]: item for item in decode_items(encoded) if stands_for(item) is None}
                found |= {known: item for known, item in items.items() if known in wanted}
                wanted -= items.keys()
        return found

    def add(self, response: str, history: Sequence[bytes]) -> None:
        """Histories share their bytes. Each is counted whole all the same, because it may outlive the others."""
        self._histories[response] = tuple(history)
        self._size += _size(history)
        while self._size > self._most_bytes or len(self._histories) > self._most_responses:
            self.remove(next(iter(self._histories)))

    def remove(self, response: str) -> None:
        self._size -= _size(self._histories.pop(response, ()))


def _may_contain(encoded: bytes, ids: Collection[str]) -> bool:
    """To search the bytes takes less than to decode them, as long as the ids are few."""
    return bool(ids) and (len(ids) > FEW_IDS or any(msgspec.json.encode(wanted) in encoded for wanted in ids))


def _size(history: Sequence[bytes]) -> int:
    return sum(map(len, history))
