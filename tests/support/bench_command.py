"""Run as a script: `python -m bench.models`, whose `antiphon` is support.idle_antiphon. Needs no model and no Codex."""

import sys
from pathlib import Path
from unittest.mock import patch

from bench.models.__main__ import main

IDLE = [sys.executable, "-m", "support.idle_antiphon"]

if __name__ == "__main__":
    with (
        patch("bench.models.subjects.ANTIPHON", IDLE),
        patch("bench.models.codex_runs.ANTIPHON", IDLE),
        patch("bench.models.codex_runs.BINARY", Path(sys.executable)),
    ):
        sys.exit(main())
