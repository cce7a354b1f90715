"""Compares the endpoints of llama.cpp, LiteLLM and Antiphon. A run that was stopped is continued.

PYTHONPATH=tests python -m bench.endpoints                  all of it, in some hours
python -m bench.endpoints --parts questions --engine URL    the questions with function tools, of a llama.cpp that runs
"""

import argparse
import asyncio
import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.endpoints.results import RESULTS, Results, compact
from bench.endpoints.subjects import SUBJECTS
from bench.processes import BenchFailed, until_stopped

# A module of this package for each. One that is not asked for is not imported: it may need packages of the tests.
PARTS = ("checks", "suite", "questions", "cache")
MODEL, READER = "qwen2.5-coder-1.5b", "smollm2"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.endpoints", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", type=_names_of(PARTS), default=[*PARTS], metavar="NAMES", help=f"of: {', '.join(PARTS)}")
    parser.add_argument(
        "--subjects", type=_names_of(SUBJECTS), default=[*SUBJECTS], metavar="NAMES", help=f"of: {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--engine", metavar="URL", help="for the questions: a llama.cpp that runs. Default: one is started")
    parser.add_argument(
        "--model", default=MODEL, help=f"of the questions, as for `antiphon serve --model`: a name, or a file. Default: {MODEL}"
    )
    parser.add_argument("--reader", default=READER, metavar="MODEL", help=f"the model of the cache. Default: {READER}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="questions at the same time. Default: 1")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FILE", help="where lines are appended. Default: %(default)s"
    )
    parser.add_argument("--merge", type=Path, metavar="FILE", help="measure nothing, and take in what another run has found")
    return parser.parse_args(arguments)


def _names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        given = text.split(",")
        if unknown := [name for name in given if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: must be of {', '.join(known)}")
        return given

    return names


async def measure(chosen: argparse.Namespace, results: Results) -> None:
    for part in chosen.parts:
        await importlib.import_module(f"bench.endpoints.{part}").measure(chosen, results)


def main() -> int:
    chosen = options()
    results = Results(chosen.results)
    try:
        if chosen.merge is not None:
            other = Results(chosen.merge)
            results.add(*other.setups.values(), *other.findings.values())
        else:
            asyncio.run(until_stopped(measure(chosen, results)))
    except (BenchFailed, ExceptionGroup) as failed:
        reasons = failed.exceptions if isinstance(failed, ExceptionGroup) else [failed]
        print(*(f"bench: {reason!r}" for reason in reasons), sep="\n", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143
    compact(results, chosen.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
