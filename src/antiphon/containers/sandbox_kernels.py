"""Code in the sandbox of this machine, if it holds."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.containers.kernels import Kernel
from antiphon.logs import log
from antiphon.sandbox.limits import SandboxLimits

# What is imported where it is used is not there on every system.
if TYPE_CHECKING:
    from antiphon.sandbox.sandbox import Sandbox

NOT_LINUX = "Code runs in a sandbox of Linux, and this is another system."
FAILED = "The sandbox could not be probed: {reason}"


class SandboxKernels:
    """Follows `Kernels`."""

    def __init__(self, limits: SandboxLimits, *, packages: Path | None = None) -> None:
        """`packages`: a folder with Python packages for code, in place of the gateway's own."""
        self._limits = limits
        self._packages = packages
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
        reason = NOT_LINUX if sys.platform != "linux" else await self._probe_linux()
        if reason is None:
            log("sandbox_holds")
        else:
            log("sandbox_does_not_hold", level=logging.WARNING, reason=reason)
        return reason

    async def _probe_linux(self) -> str | None:
        from antiphon.sandbox.cgroups import NoCgroups, find_cgroups
        from antiphon.sandbox.probe import probe
        from antiphon.sandbox.sandbox import Sandbox

        try:
            cgroups = await asyncio.to_thread(find_cgroups)
            sandbox = Sandbox(cgroups, packages=None if self._packages is None else [self._packages])
            reason = await probe(sandbox)
        except NoCgroups as missing:
            return str(missing)
        except Exception as failed:
            # Whatever it is: nothing is run without a sandbox that holds.
            return FAILED.format(reason=str(failed) or type(failed).__name__)
        self._sandbox = sandbox if reason is None else None
        return reason

    async def start(self, folder: Path, memory: int) -> Kernel:
        from antiphon.sandbox.kernel import Kernel as SandboxKernel

        if (reason := await self.complaint()) is not None or self._sandbox is None:
            raise RuntimeError(reason)
        return await SandboxKernel.start(self._sandbox, folder, structs.replace(self._limits, memory=memory))

    async def close(self) -> None:
        if self._probing is not None and not self._probing.done():
            self._probing.cancel()
            await asyncio.wait({self._probing})
