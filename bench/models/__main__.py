"""Measures what a small model gets done: tasks for Codex, conversations and questions with function tools.

Of each there are two halves: `--half tuning`, by which the help was made, and `--half final`, which docs/small_models.md is
made of. A measurement that was interrupted is continued where it ended.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.weights import alias_of
from bench.models.codex_runs import installed_codex
from bench.models.page import PAGE, left_out, page, tables
from bench.models.plan import measure
from bench.models.results import PARTS, RESULTS, read_results
from bench.models.subjects import SUBJECTS
from bench.processes import BenchFailed, until_stopped

MODEL = "qwen2.5-coder-1.5b"
THREADS = "ANTIPHON_MODEL_THREADS"


def report(chosen: argparse.Namespace) -> None:
    runs = [run for run in read_results(chosen.results) if run.model == alias_of(chosen.model)]
    print("\n".join(["", *tables([run for run in runs if run.half == chosen.half])]))
    if chosen.half != "final":
        return
    final = [run for run in runs if run.half == "final"]
    for words in left_out(final):
        print(f"not on the page: {words}")
    if (text := page(final)) is not None:
        PAGE.write_text(text)
        print(f"written: {PAGE}")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument(
        "--model", default=MODEL, metavar="MODEL", help=f"as for `antiphon serve --model`: a name, or a file. Default: {MODEL}"
    )
    parser.add_argument(
        "--engine",
        metavar="URL",
        help="a llama.cpp server that serves this model already, in a slot for each job. Default: an embedded engine for each",
    )
    parser.add_argument("--device", metavar="WORDS", help="what that engine runs on, as the page is to say it: one NVIDIA H200")
    parser.add_argument("--codex", type=Path, metavar="FILE", help="the program codex. Default: npm installs it")
    parser.add_argument("--half", choices=("tuning", "final"), default="final", help="default: final")
    parser.add_argument(
        "--subjects", type=_names_of(SUBJECTS), default=[*SUBJECTS], metavar="NAMES", help=f"of: {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--parts", type=_names_of(PARTS), default=[*PARTS], metavar="NAMES", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAMES", help="only these kinds, or these names")
    parser.add_argument(
        "--runs", type=int, default=3, metavar="N", help="how often tasks and conversations are done. Default: 3"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many gateways work at the same time. Default: 1")
    parser.add_argument("--threads", type=int, metavar="N", help="of each model. Default: as the gateway chooses")
    parser.add_argument(
        "--patience", type=float, default=1.0, metavar="FACTOR", help="limits of time are so many times as long. Default: 1"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FILE",
        help="where a line is appended for each run. Default: %(default)s",
    )
    parser.add_argument("--page-only", action="store_true", help="measure nothing, and write the page from what is there")
    chosen = parser.parse_args(arguments)
    if (chosen.engine is None) != (chosen.device is None):
        parser.error("--engine and --device are given together: the page says where the engine ran")
    if chosen.engine is not None and chosen.threads is not None:
        parser.error("--threads is for embedded engines: an engine that runs already has its own")
    return chosen


def _names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        given = text.split(",")
        if unknown := [name for name in given if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: must be of {', '.join(known)}")
        return given

    return names


def main() -> int:
    chosen = options()
    if chosen.threads:
        os.environ[THREADS] = str(chosen.threads)
    try:
        if not chosen.page_only:
            if "tasks" in chosen.parts:
                installed_codex(chosen.codex)
            asyncio.run(until_stopped(measure(chosen)))
        report(chosen)
    except (BenchFailed, CannotEmbed, ExceptionGroup) as failed:
        # Several gateways fail together, each for its own reason.
        reasons = failed.exceptions if isinstance(failed, ExceptionGroup) else [failed]
        print(*(f"bench: {reason}" for reason in reasons), sep="\n", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143
    return 0


if __name__ == "__main__":
    sys.exit(main())
