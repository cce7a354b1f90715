"""Run as a script: `antiphon` that also knows the model pebble, whose file is the first argument."""

import sys
from pathlib import Path

from antiphon.cli import main
from antiphon.engines.embedded.named_models import BY_NAME
from support.model_sources import HUB, a_model, packages

if __name__ == "__main__":
    BY_NAME["pebble"] = a_model(Path(sys.argv.pop(1)).read_bytes(), HUB, packages(3))
    main()
