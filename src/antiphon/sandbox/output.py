"""What code prints: its beginning and its end, however much it is."""

# A run that prints without end is read slowly once its output is long enough: the rest is thrown away, and other work goes on.
PIECE = 65536
PAUSE = 0.002  # seconds


class Output:
    """At most `most` bytes are kept."""

    def __init__(self, most: int) -> None:
        self._most_first = most - most // 3
        self._most_last = most // 3
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0

    @property
    def is_long(self) -> bool:
        return self._left_out > 0

    def add(self, piece: bytes) -> None:
        room = max(0, self._most_first - len(self._first))
        self._first += piece[:room]
        self._last += piece[room:]
        if (over := len(self._last) - self._most_last) > 0:
            del self._last[:over]
            self._left_out += over

    def text(self) -> str:
        if not self._left_out:
            return (self._first + self._last).decode("utf-8", "replace")
        first, last = (part.decode("utf-8", "replace") for part in (self._first, self._last))
        return f"{first}\n[{self._left_out} bytes of output are left out here.]\n{last}"
