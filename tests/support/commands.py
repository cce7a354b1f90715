"""Antiphon as a command, in an environment that says nothing to it but where fetched models are kept."""

import os
import sys
from pathlib import Path

ANTIPHON = [sys.executable, "-m", "antiphon"]


def environment(cache: Path) -> dict[str, str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return bare | {"ANTIPHON_CACHE_DIR": str(cache)}
