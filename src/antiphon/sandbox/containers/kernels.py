"""What runs code: the interface of containers to the sandbox."""

from pathlib import Path
from typing import Protocol

from antiphon.sandbox.results import KernelRun as KernelRun
from antiphon.sandbox.results import ShellRun as ShellRun


class Kernel(Protocol):
    """A Python that keeps its state. One run at a time."""

    async def run(self, code: str, seconds: float) -> KernelRun: ...

    async def shell(self, command: str, seconds: float, most_output: int) -> ShellRun: ...

    @property
    def is_alive(self) -> bool: ...

    async def close(self) -> None: ...


class Kernels(Protocol):
    def begin(self) -> None:
        """Finds out whether code can be run here, in the background."""

    async def complaint(self) -> str | None:
        """Why code cannot be run here. It waits until that is known."""

    async def start(self, folder: Path, memory: int) -> Kernel:
        """`folder`: what code sees as /mnt/data. `memory`: in bytes."""

    async def close(self) -> None: ...
