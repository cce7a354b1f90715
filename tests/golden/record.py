"""Writes the expected events of every recording anew: `python tests/golden/record.py`, then read the diff."""

from pathlib import Path

from support.sync_runs import replay

HERE = Path(__file__).parent

if __name__ == "__main__":
    for path in sorted((HERE / "streams").glob("*.sse")):
        (HERE / "events" / path.name).write_bytes(replay([path.read_bytes()]))
