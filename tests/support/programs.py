"""Programs that the tests need and pip does not bring: found, or installed with apt-get by root. Where neither is possible, the
tests that need them are left out, and the end of the run says so; in CI they fail."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest
from filelock import FileLock

T = TypeVar("T")


class Missing(Exception):
    """It is not installed, and cannot be installed."""


def found_or_installed(find: Callable[[], T | None], package: str, advice: str = "") -> T:
    """What `find` finds, at once or in a package of Debian's. Of several processes that run tests, one installs it."""
    with FileLock(Path(tempfile.gettempdir()) / f"antiphon-tests-{package}-{os.geteuid()}.lock"):
        return find() or _install(find, package, advice or f"Install it: apt-get install {package}")


def _install(find: Callable[[], T | None], package: str, advice: str) -> T:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"{package} is not installed, and only root can install it with apt-get. {advice}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", package]
    errors = ""
    # The package lists of a new machine may be old or missing.
    for command in (install, ["apt-get", "update"], install):
        errors = subprocess.run(command, env=environment, capture_output=True, text=True).stderr
        if (found := find()) is not None:
            return found
    raise Missing(f"apt-get could not install {package}: {errors[-500:]}\n{advice}")


def program(name: str, package: str) -> str:
    """The path of a program. Without it, the test is left out."""
    try:
        return found_or_installed(lambda: shutil.which(name), package)
    except Missing as reason:
        leave_out(str(reason))


def why_no_llamacpp() -> str | None:
    """What keeps llama.cpp from being loaded on this machine: its wheel brings all but one library of the system's."""
    if sys.platform != "linux":
        return None
    try:
        found_or_installed(_openmp, "libgomp1")
    except Missing as reason:
        return str(reason)
    return None


def _openmp() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libgomp.so.1")
    except OSError:
        return None


def leave_out(reason: str) -> NoReturn:
    """The test that calls this, or that uses the fixture which does."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
