"""Antiphon as a command, in an environment that says nothing to it but what a test wants, and that it leaves no trace in."""

import os
import sys
from pathlib import Path

ANTIPHON = [sys.executable, "-m", "antiphon"]
TRACELESS = {"ANTIPHON_STORE": "memory:", "ANTIPHON_SEAL_KEY": "for the tests"}


def bare_environment(**more: str) -> dict[str, str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return bare | TRACELESS | more


def environment(cache: Path) -> dict[str, str]:
    return bare_environment(ANTIPHON_CACHE_DIR=str(cache))
