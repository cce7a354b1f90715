"""Run as a script: `antiphon` on a machine with so much memory, in bytes, as the first argument says."""

import sys
from unittest.mock import patch

from antiphon.cli import main

if __name__ == "__main__":
    memory = int(sys.argv.pop(1))
    with patch("antiphon.engines.embedded.model_choice.machine_memory", lambda: memory):
        main()
