"""docs/comparison.md: what `make bench` measured, a table for each part."""

import os
import platform
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"

HEAD = """\
# Antiphon, measured

This page is written by `make bench`, on {machine}.
A benchmark is a comparison within one run: absolute times depend on the machine, ratios less so. What a small model gets done
with Antiphon, without its help, and on the engine's own endpoints is in [small_models.md](small_models.md), which
`make bench-models` writes.
"""


class Part(NamedTuple):
    name: str
    title: str
    about: str


PARTS = (
    Part(
        "streams",
        "CPU per delta",
        "200 streams at once, each with a delta every 20 ms, and nginx passing the same streams through. `× nginx` is the\n"
        "CPU of the server per delta, as a ratio to nginx's. Medians of several rounds, by turns.",
    ),
    Part(
        "observing",
        "What looking on costs",
        "The same streams with the inspector and the metrics on and off, by turns, under a load that lasts. The inspector\n"
        "then records some of the requests (`inspector_rate`); the last column is what recording all of them costs.",
    ),
    Part(
        "state",
        "What state costs",
        "CPU of a request that is stored and of one that is not; and of continuing a chain of responses by its id and by\n"
        "sending it whole.",
    ),
    Part("store", "The stores", "Operations on a store that is full."),
    Part(
        "choices",
        "Required calls and schemas",
        "Varied requests to llama.cpp, each of which requires a call or an answer by a schema: how many got it when the\n"
        "engine was asked directly, and how many through Antiphon.",
    ),
)


def keep(part: str, table: str) -> None:
    """For the page. A part that is not measured again stays as it was."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{part}.md").write_text(table.strip() + "\n", encoding="utf-8")


def page() -> str:
    measured = [part for part in PARTS if (RESULTS / f"{part.name}.md").exists()]
    sections = [
        f"## {part.title}\n\n{part.about}\n\n{(RESULTS / f'{part.name}.md').read_text(encoding='utf-8')}" for part in measured
    ]
    return "\n".join([HEAD.format(machine=machine()), *sections])


def machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, Python {platform.python_version()}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
