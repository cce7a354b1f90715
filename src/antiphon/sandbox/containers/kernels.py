"""What runs code: the interface of containers, and the sandbox of this machine."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import structs

from antiphon.logs import log
from antiphon.sandbox.kernel import Kernel as SandboxKernel
from antiphon.sandbox.probe import NoSandbox, open_sandbox
from antiphon.sandbox.runs import KernelRun as KernelRun
from antiphon.sandbox.runs import SandboxLimits
from antiphon.sandbox.runs import ShellRun as ShellRun
from antiphon.sandbox.sandbox import Sandbox


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


# ---- the sandbox of this machine -------------------------------------------------------------------------------------

FAILED = "The sandbox could not be probed: {reason}"


class SandboxKernels:
    """Follows `Kernels`."""

    def __init__(self, limits: SandboxLimits, *, packages: Path | None = None, private: Sequence[Path] = ()) -> None:
        """`packages`: a folder with Python packages for code, in place of the gateway's own. `private`: what code must not
        see."""
        self._limits = limits
        self._packages = packages
        self._private = private
        self._sandbox: Sandbox | None = None
        self._probing: asyncio.Task[str | None] | None = None

    def begin(self) -> None:
        """Probes the sandbox in the background."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe())

    async def complaint(self) -> str | None:
        self.begin()
        assert self._probing is not None
        # Others may wait for it, too.
        return await asyncio.shield(self._probing)

    async def _probe(self) -> str | None:
        reason = None
        try:
            self._sandbox = await open_sandbox(
                packages=None if self._packages is None else [self._packages], private=self._private
            )
        except NoSandbox as missing:
            reason = str(missing)
        except Exception as failed:
            # Whatever it is: nothing is run without a sandbox that works.
            reason = FAILED.format(reason=str(failed) or type(failed).__name__)
        if reason is None:
            log("sandbox_holds", level=logging.DEBUG)
        else:
            log("sandbox_does_not_hold", reason=reason)
        return reason

    async def start(self, folder: Path, memory: int) -> Kernel:
        if (reason := await self.complaint()) is not None or self._sandbox is None:
            raise RuntimeError(reason)
        return await SandboxKernel.start(self._sandbox, folder, structs.replace(self._limits, memory=memory))

    async def close(self) -> None:
        if self._probing is not None and not self._probing.done():
            self._probing.cancel()
            await asyncio.wait({self._probing})
