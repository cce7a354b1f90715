"""What a run of code may use, and what came of it."""

from msgspec import Struct

MIB = 1024 * 1024
GIB = 1024 * MIB
# In /mnt/data, with folders. The gateway lists all of them after each run.
MOST_FILES = 5_000
# Bytes. Nothing is written for a sandbox that would fill the disk that the gateway's own data is on.
KEEP_FREE = 256 * MIB


class SandboxLimits(Struct, frozen=True):
    memory: int = GIB  # bytes, of all processes together, with what they write to /tmp and /dev/shm
    processes: int = 64  # with threads
    disk: int = GIB  # bytes in /mnt/data
    files: int = MOST_FILES
    output: int = 100_000  # bytes of the logs of one run, so at most as many characters
    seconds: float = 60.0  # of one run
    images: int = 20  # of one run
    image_bytes: int = 8 * MIB  # of one image


# A run that prints without end is read slowly once its output is long enough: the rest is thrown away, and other work goes on.
PIECE = 1024 * 1024
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


class KernelRun(Struct, frozen=True):
    """The state of the interpreter is lost where `Kernel.is_alive` is false afterwards; the logs say so, and why."""

    logs: str  # what was printed, the value of the last expression, errors: in order
    images: list[bytes] = []  # PNG
    failed: bool = False  # an exception, a run that took too long, or an interpreter that ended
    timed_out: bool = False
    out_of_memory: bool = False


class ShellRun(Struct, frozen=True):
    stdout: str
    stderr: str
    exit_code: int | None  # None: it took too long
