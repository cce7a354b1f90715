"""A real sandbox, probed once, and an interpreter in it for each test."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.bubblewrap import kernel_in, real_sandbox

from antiphon.sandbox.kernel import Kernel
from antiphon.sandbox.sandbox import Sandbox

GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return asyncio.run(real_sandbox())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is /mnt/data inside."""
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest_asyncio.fixture
async def kernel(sandbox: Sandbox, folder: Path) -> AsyncIterator[Kernel]:
    async with kernel_in(sandbox, folder) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    # Other processes of the tests make and remove groups meanwhile: unlike a glob, this passes over what is gone.
    groups = [name for _, names, _ in os.walk(GROUPS) for name in names]
    assert [name for name in groups if name.startswith(f"antiphon-sandbox-{os.getpid()}-")] == []
