"""The name by which processes of version 0.1 that still run start this program. It goes after one release."""

import runpy

if __name__ == "__main__":
    runpy.run_module("antiphon.gateway.runs.check_process", run_name="__main__")
