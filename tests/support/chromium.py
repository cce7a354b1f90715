"""A real Chromium for the tests of the inspector, and axe-core, which looks for what some people could not use.

`python -m support.chromium` installs both where they are missing, and says what to do where it cannot.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from support.programs import Missing, found_or_installed

FOLDER = Path(__file__).parents[1] / "browser"
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE = "chromium"


def chromium() -> str:
    """The program. `CHROMIUM` names another one than that of the path."""
    advice = f"Install it (apt-get install {PACKAGE}), or name one: CHROMIUM=/path/to/chromium"
    return found_or_installed(_installed, PACKAGE, advice)


def _installed() -> str | None:
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def axe() -> str:
    """The source of axe-core."""
    with FileLock(FOLDER / "install.lock"):
        if not AXE.exists():
            _install_axe()
    return AXE.read_text(encoding="utf-8")


def _install_axe() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Missing(f"axe-core is not installed in {FOLDER}, and there is no npm to install it with. Install Node and npm.")
    options = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(FOLDER)]
    subprocess.run([npm, "install", *options], check=True, timeout=600, stdout=sys.stderr)


if __name__ == "__main__":
    try:
        chromium()
        axe()
    except Missing as reason:
        sys.exit(str(reason))
