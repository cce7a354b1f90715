"""The table of metrics in docs/operating.md, as it should be: `python tests/server/metrics/table.py` writes it there."""

import re
from collections.abc import Iterator
from pathlib import Path

from antiphon.server.metrics.exposition import Exposition
from antiphon.server.metrics.instruments import Instruments
from antiphon.server.metrics.state import EngineState, GatewayState
from antiphon.store.files.batch_lines import LineCounts
from antiphon.store.records import JobCounts

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
HEAD = "| metric | type | labels | what it says |\n| --- | --- | --- | --- |\n"
TABLE = re.compile(re.escape(HEAD) + r"(\|.*\n)+")
# A gateway that has something to say of everything.
ENGINE = EngineState("http://engine", "plain", "1", True, 0, 0, 0, 0, 0.0)
STATE = GatewayState("1.0", (ENGINE,), jobs=JobCounts(0, 0), lines=LineCounts(0, 0))


def metrics() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, type, labels and meaning of each metric of our own."""
    instruments = Instruments().all()
    for instrument, family in zip(instruments, Exposition(instruments).collect(), strict=True):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, family.type, instrument.label_names, family.documentation
    for family in Exposition((), STATE).collect():
        yield family.name, family.type, tuple(family.samples[0].labels), family.documentation


def table() -> str:
    rows = (f"| `{name}` | {kind} | {', '.join(labels)} | {help} |\n" for name, kind, labels, help in metrics())
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
