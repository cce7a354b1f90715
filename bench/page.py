"""docs/comparison.md: what `make bench` measured, a table for each part."""

import os
import platform
from pathlib import Path
from typing import NamedTuple

from bench.endpoints.page import sections, summary
from bench.endpoints.results import Results

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"

TITLE = "# Antiphon beside others\n"
HEAD = """\
This page is written by `make bench`, `make bench-parts` and `make bench-endpoints`, on {machine}.
A benchmark is a comparison within one run: absolute times depend on the machine, ratios less so. What a small model gets done
with Antiphon is in [small_models.md](small_models.md).
"""


GATEWAYS = """\
![CPU, throughput and latency as multiples of nginx](bench.svg)

All of them are loaded by turns in one run, on one core, before one mock engine. nginx and a bare proxy on aiohttp (the floor of
the stack that Antiphon stands on) pass Chat Completions on without reading them. Antiphon and LiteLLM are asked for the
Responses API, which they translate. Medians of the rounds, with the least and the most. LiteLLM cannot take the load of the
others; its cells say what it got. `deltas` are counted while all streams run; a request's own cost is in the rows about
requests. Antiphon stores in memory unless a row says otherwise. [NOTES.md](../bench/NOTES.md) explains how it is measured."""


class Part(NamedTuple):
    name: str
    title: str
    about: str


PARTS = (
    Part("gateways", "Beside nginx and LiteLLM", GATEWAYS),
    Part(
        "state",
        "Continuing a chain",
        "A request that continues a chain by its id, and one that sends the chain whole, in milliseconds.",
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


def page(before: str = "") -> str:
    """A part that was never measured on this machine stays as it was on the page before."""
    parts = [section for part in PARTS if (section := _measured(part) or _kept(part, before))]
    found = Results()
    endpoints = [summary(found), HEAD.format(machine=machine()), sections(found)]
    return "\n".join(filter(None, [TITLE, *endpoints, *parts]))


def _measured(part: Part) -> str:
    file = RESULTS / f"{part.name}.md"
    return f"## {part.title}\n\n{part.about}\n\n{file.read_text(encoding='utf-8')}" if file.exists() else ""


def _kept(part: Part, before: str) -> str:
    _, found, rest = before.partition(f"\n## {part.title}\n")
    section, _, _ = rest.partition("\n## ")
    return f"## {part.title}\n{section}" if found else ""


def machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, Python {platform.python_version()}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
