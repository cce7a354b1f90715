"""What came out of a run of code, and of a command."""

from msgspec import Struct


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
