"""Ids of calls for chat templates that take only ids of one length."""

import string
from hashlib import sha256


class ShortIds:
    """Ids of a fixed length, for ids of any form. Two ids never become one, unless there are more of them than such ids.

    An id keeps what it became when it was first seen: what comes later must not change earlier messages. So an id that has the
    right form stays as it is, unless an earlier one has become just that.
    """

    LETTERS = string.digits + string.ascii_letters

    def __init__(self, length: int) -> None:
        self._length = length
        self._count = len(self.LETTERS) ** length
        self._short: dict[str, str] = {}
        self._taken: set[str] = set()

    def __getitem__(self, id: str) -> str:
        short = self._short.get(id)
        if short is None:
            short = self._short[id] = id if self._is_short(id) and id not in self._taken else self._free(id)
            self._taken.add(short)
        return short

    def _is_short(self, id: str) -> bool:
        return len(id) == self._length and id.isascii() and id.isalnum()

    def _free(self, id: str) -> str:
        number = int.from_bytes(sha256(id.encode(errors="surrogatepass")).digest())
        while (short := self._written(number)) in self._taken and len(self._taken) < self._count:
            number += 1
        return short

    def _written(self, number: int) -> str:
        """The last digits of the number."""
        digits = []
        for _ in range(self._length):
            number, digit = divmod(number, len(self.LETTERS))
            digits.append(self.LETTERS[digit])
        return "".join(reversed(digits))
