"""Code in the sandbox of this machine, if it holds."""

from pathlib import Path

from antiphon.containers.kernels import Kernel

NOT_HERE = "Code runs in a sandbox of Linux, and this system has none."


class SandboxKernels:
    """Follows `Kernels`."""

    def __init__(self, disk: int, *, packages: str | None = None) -> None:
        """`disk`: bytes of the files of one container. `packages`: a folder with more packages for code."""
        self._disk = disk
        self._packages = packages

    async def complaint(self) -> str | None:
        return NOT_HERE

    async def start(self, folder: Path, memory: int) -> Kernel:
        raise NotImplementedError

    async def close(self) -> None: ...
