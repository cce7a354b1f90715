"""Asks a small model about documents that it has to search with file_search, and judges what it answers.

python -m bench.models.searches --set final --repeat 3                     an embedded engine
python -m bench.models.searches --set final --repeat 3 --engine URL        a llama.cpp that runs already
python -m bench.models.searches --set final --repeat 3 --sources FOLDER    the gateway of another version of the sources

Everything in the documents is invented, so no model can know it. A quarter to a half of the questions has no answer in them:
then it is right to say so. Searches go by words alone, and need no model of their own and no network. Each question is
asked `--repeat` times, with the sampling that the gateway chooses.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from antiphon.core.toolbox import examples
from bench.models.judges import Half
from bench.models.subjects import SUBJECTS, Running, outside_engine, running
from bench.models.watcher import Target
from bench.processes import BenchFailed, until_stopped

MODEL = "qwen2.5-coder-1.5b"
MOST_TOKENS = 300
# Seconds for one answer: on two cores, a prompt with the passages of six documents takes long.
TIMEOUT = 900.0
# So many words in a row that are also in an example were copied from it.
COPIED_WORDS = 4
WORD = re.compile(r"\w+")
# What is said where the documents do not have the answer.
NOT_THERE = re.compile(
    r"\b(?:not|no|nothing|none|neither|cannot|unable|without|unknown|unfortunately)\b|n['’]t\b", re.IGNORECASE
)
CONFIG = '[vector_stores]\nembedding_model = "off"\n'


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    half: Half
    # One of each group is in a right answer, whatever its case is. None: the documents do not have the answer.
    says: Sequence[Sequence[str]] = ()
    # None of these is in it: what the documents say of something else, and what a model would make up.
    never: Sequence[str] = ()
    # The document that has to be cited.
    cites: str = ""


# ---- the documents ---------------------------------------------------------------------------------------------------

TUNING = {
    "kettle.md": """\
# The kettle Brodel K2

The kettle has 1.7 litres. Fill it between the marks MIN and MAX.

## Descaling
Descale the kettle every six weeks. Pour in half a litre of white vinegar, wait for forty minutes, and rinse twice with cold
water. Do not boil the vinegar.

## Lamp
A blue lamp means that the water is being heated. A lamp that blinks red means that the kettle is empty: let it cool for ten
minutes before you fill it.
""",
    "tent.md": """\
# The tent Larkfell 3

The tent sleeps three people and weighs 4.2 kilograms.

## Pitching
Lay the groundsheet first. Push the orange poles through the long sleeves, and the grey pole through the porch. Sixteen pegs
come with the tent; the porch needs four of them.

## Drying
Never pack the tent wet for more than a day. Dry it in the shade, because the sun makes the fabric brittle.
""",
    "library.md": """\
# Rules of the Dunmere library

Books are lent for four weeks, films for one week. A loan can be renewed twice.

## Fees
A book that comes back late costs 20 cents a day, at most 8 euros. A lost card is replaced for 5 euros.

## Rooms
The reading room closes at 19:30. Food is not allowed there; bottles with a lid are.
""",
}
FINAL = {
    "sewing.md": """\
# The sewing machine Velda 400

## Needles
Use needle size 70 for silk, size 90 for cotton and size 110 for denim. Change the needle after eight hours of sewing.

## Oil
Put two drops of oil into the red hole under the plate once a month. Sew on a rag afterwards, until it stays clean.

## Errors
E3 on the display means that the bobbin is empty. E5 means that the thread is caught under the plate.
""",
    "ferry.md": """\
# The ferry to Skarholm

The ferry leaves Ulvik at 7:10, 12:40 and 18:25. The crossing takes 35 minutes. On Sundays there is no ferry at 7:10.

## Fares
An adult pays 9 euros, a child under twelve nothing, a bicycle 4 euros. A car has to be booked a day before.

## Dogs
Dogs travel on the upper deck only, on a lead.
""",
    "garden.md": """\
# The garden club of Pellworth

A plot costs 85 euros a year, to be paid by the end of February. The waiting list is kept by Ms Iversen.

## Water
Water may be taken from the tank between 6 and 10 in the morning. Hoses are forbidden in August.

## Bonfires
Garden waste may be burnt on the first Saturday of November, and on no other day.
""",
    "choir.md": """\
# Handbook of the choir Corvo

Rehearsals are on Wednesdays at 19:45 in the hall of the mill. Who misses three in a row does not sing in the next concert.

## Clothes
At concerts everybody wears black, with a green scarf.

## Scores
Scores are borrowed from Tomas. A lost score costs 12 euros.
""",
    "heater.md": """\
# The room heater Solvo 12

## First use
Let the heater run for half an hour with the window open: it smells of paint.

## Placing
Keep 70 centimetres free in front of it. Never use it in a bathroom.

## Frost
The button with the snowflake keeps a room at 7 degrees. It switches itself off after 72 hours.
""",
    "office.md": """\
# How things are done at Marlow & Finch

The printer on the second floor prints in colour, the one at the entrance only in black.

## Parcels
Parcels are handed in at the loading bay before 15:30. Those for abroad need form C14.

## Keys
The spare key of the archive hangs in the kitchen, behind the clock.
""",
}
DOCUMENTS: dict[Half, dict[str, str]] = {"tuning": TUNING, "final": FINAL}

# ---- the questions ---------------------------------------------------------------------------------------------------


def _asked(half: Half, text: str, cites: str, *says: str | Sequence[str], never: Sequence[str] = ()) -> Asked:
    return Asked(text, half, [(each,) if isinstance(each, str) else each for each in says], never, cites)


QUESTIONS = (
    _asked("tuning", "How is the kettle descaled?", "kettle.md", "vinegar", never=("lemon",)),
    _asked("tuning", "How many pegs does the porch of the tent need?", "tent.md", ("four", "4 "), never=("need sixteen",)),
    _asked("tuning", "What does a lost library card cost?", "library.md", ("5 euro", "five euro", "€5")),
    Asked("What colour is the kettle's lid?", "tuning", never=("blue", "red", "orange", "grey")),
    Asked("How long is the guarantee of the tent?", "tuning", never=("year", "months", "4.2", "not guaranteed")),
    Asked("Who is the head of the Dunmere library?", "tuning"),
    _asked("final", "Which needle do I need for denim?", "sewing.md", "110", never=("size 70", "size 90")),
    _asked("final", "What does E5 mean on the sewing machine?", "sewing.md", "thread", never=("bobbin is empty",)),
    _asked("final", "What does it cost to take a bicycle on the ferry?", "ferry.md", ("4 euro", "four euro", "€4", "4 €")),
    _asked("final", "Where do dogs have to stay on the ferry?", "ferry.md", "upper deck"),
    _asked("final", "When may garden waste be burnt?", "garden.md", "november", never=("february", "august")),
    _asked("final", "What do the singers wear at concerts?", "choir.md", "black", "green"),
    _asked("final", "How much room has to be free in front of the heater?", "heater.md", "70"),
    _asked("final", "Where is the spare key of the archive?", "office.md", "kitchen", never=("loading bay",)),
    _asked("final", "By what time do parcels have to be handed in?", "office.md", ("15:30", "3:30")),
    Asked("Who built the ferry to Skarholm?", "final", never=("was built by",)),
    Asked("What does a membership of the choir cost?", "final", never=("costs 12", "is 12", "85", "€12")),
    Asked("How many watts does the room heater have?", "final", never=("12 watts", "70 watts", "72 watts", "1200", "1500")),
)


# ---- the judge -------------------------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def runs(text: str) -> Iterable[tuple[str, ...]]:
    words = _words(text)
    return (tuple(words[at : at + COPIED_WORDS]) for at in range(len(words) - COPIED_WORDS + 1))


def _shown() -> list[examples.Example]:
    """All worked examples that there are."""
    sets = (value for value in vars(examples).values() if isinstance(value, tuple))
    return [each for examples_of in sets for each in examples_of if isinstance(each, examples.Example)]


def copied(answer: str, half: Half) -> list[str]:
    """Words of an example in the answer. That something is not there may be said in the same words, and so may what the
    documents or the question say."""
    own = set(runs("\n".join((*DOCUMENTS[half].values(), *(each.text for each in QUESTIONS)))))
    texts = [text for each in _shown() for text in (each.says, *(result for step in each.steps for *_, result in step.calls))]
    known = {run for text in texts for run in runs(text)} - own
    return [" ".join(run) for run in runs(answer) if run in known and not NOT_THERE.search(" ".join(run))]


@dataclass(slots=True)
class Judged:
    """What came of a question, once."""

    question: str
    words: str = ""
    # What was looked for.
    searches: list[str] = field(default_factory=list)
    cited: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def judge(asked: Asked, answer: dict[str, Any]) -> Judged:
    items = answer["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    words = "\n".join(part.get("text", "") for part in parts)
    searches = [query for item in items if item["type"] == "file_search_call" for query in item["queries"]]
    cited = [note["filename"] for part in parts for note in part.get("annotations", ()) if note["type"] == "file_citation"]
    judged = Judged(asked.text, words, searches, cited)
    said = words.casefold()
    if not searches:
        judged.wrong.append("no search")
    if asked.says and not all(any(word.casefold() in said for word in group) for group in asked.says):
        judged.wrong.append("wrong words")
    if not asked.says and not NOT_THERE.search(words):
        judged.wrong.append("does not say that it is not there")
    judged.wrong += [f"says {each!r}" for each in asked.never if each.casefold() in said]
    if asked.cites and asked.cites not in cited:
        judged.wrong.append("no citation of its source")
    judged.wrong += [f"copied {each!r}" for each in copied(words, asked.half)[:1]]
    return judged


# ---- the run ---------------------------------------------------------------------------------------------------------


async def fill_store(session: aiohttp.ClientSession, half: Half) -> str:
    """The id of a vector store that has the documents."""
    ids = []
    for name, text in DOCUMENTS[half].items():
        form = aiohttp.FormData()
        form.add_field("purpose", "assistants")
        form.add_field("file", text.encode(), filename=name)
        async with session.post("/v1/files", data=form) as answer:
            ids.append((await answer.json())["id"])
    async with session.post("/v1/vector_stores", json={"name": half, "file_ids": ids}) as answer:
        store = str((await answer.json())["id"])
    while True:
        async with session.get(f"/v1/vector_stores/{store}") as answer:
            counts = (await answer.json())["file_counts"]
        if not counts["in_progress"]:
            break
        await asyncio.sleep(0.1)
    if counts["completed"] < len(ids):
        raise BenchFailed(f"the gateway could not index the documents: {counts}")
    return store


async def ask(session: aiohttp.ClientSession, model: str, asked: Asked, store: str) -> Judged:
    body = {
        "model": model,
        "input": asked.text,
        "tools": [{"type": "file_search", "vector_store_ids": [store]}],
        "max_output_tokens": MOST_TOKENS,
        "store": False,
    }
    try:
        async with session.post("/v1/responses", json=body) as answer:
            given = await answer.json()
    except (aiohttp.ClientError, TimeoutError) as failed:
        return Judged(asked.text, wrong=[f"no answer: {failed!r}"])
    if given.get("error"):
        return Judged(asked.text, wrong=[f"failed: {given['error']}"])
    return judge(asked, given)


async def ask_all(target: Target, model: str, chosen: argparse.Namespace) -> list[Judged]:
    async with aiohttp.ClientSession(
        target.url, raise_for_status=False, timeout=aiohttp.ClientTimeout(total=TIMEOUT)
    ) as session:
        store = await fill_store(session, chosen.set)
        waiting = [each for _ in range(chosen.repeat) for each in QUESTIONS if each.half == chosen.set]
        done: list[Judged] = []

        async def work() -> None:
            while waiting:
                judged = await ask(session, model, waiting.pop(0), store)
                done.append(judged)
                show(judged)

        async with asyncio.TaskGroup() as workers:
            for _ in range(chosen.jobs):
                workers.create_task(work())
    return done


def show(judged: Judged) -> None:
    verdict = "; ".join(judged.wrong)
    print(f"{'WRONG' if judged.wrong else 'right'}  {judged.question}  {judged.searches} {judged.cited}", flush=True)
    print(f"       {' '.join(judged.words.split())[:400]}{f'  <- {verdict}' if verdict else ''}", flush=True)


def summary(done: Sequence[Judged], title: str) -> str:
    answerable = {each.text for each in QUESTIONS if each.says}
    rows = [
        ("answered by the documents", [each for each in done if each.question in answerable]),
        ("not answered by the documents", [each for each in done if each.question not in answerable]),
    ]
    lines = [f"{title}:"]
    for name, some in rows:
        lines.append(f"  {name}: {sum(not each.wrong for each in some)} of {len(some)} right")
    for flaw in ("no search", "wrong words", "does not say", "says", "no citation", "copied", "no answer", "failed"):
        number = sum(any(each.startswith(flaw) for each in judged.wrong) for judged in done)
        lines.append(f"  {flaw}: {number}")
    return "\n".join(lines)


def use_sources(folder: Path) -> None:
    """The gateway is a process of its own, which imports these first."""
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder.resolve()), others)))


async def measure(chosen: argparse.Namespace) -> None:
    if chosen.sources is not None:
        use_sources(chosen.sources)
    outside = await outside_engine(chosen.engine, 1) if chosen.engine else None
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "antiphon.toml").write_text(CONFIG)
        async with running(SUBJECTS[chosen.subject], chosen.model, folder, outside=outside) as subject:
            done = await ask_all(subject.gateway, subject.model, chosen)
    print(summary(done, title_of(chosen, subject)))
    if chosen.results is not None:
        lines = [json.dumps({"sources": str(chosen.sources or ""), "set": chosen.set, **_members(each)}) for each in done]
        with chosen.results.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


def _members(judged: Judged) -> dict[str, Any]:
    return {name: getattr(judged, name) for name in Judged.__slots__}


def title_of(chosen: argparse.Namespace, subject: Running) -> str:
    sources = f", sources of {chosen.sources}" if chosen.sources is not None else ""
    return f"{subject.model}, {subject.subject.title}, set {chosen.set} x {chosen.repeat}{sources}"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.models.searches", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default=MODEL, help=f"as for `antiphon serve --model`. Default: {MODEL}")
    parser.add_argument("--engine", metavar="URL", help="a llama.cpp server that has the model. Default: an embedded engine")
    parser.add_argument("--subject", choices=("help", "off"), default="help", help="with help or without. Default: help")
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="FOLDER",
        help="of another version: from which the gateway is run",
    )
    parser.add_argument("--set", choices=("tuning", "final"), default="tuning", help="default: tuning")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="how often each question is asked. Default: 1")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="questions at the same time. Default: 1")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where a line is appended for each answer")
    return parser.parse_args(arguments)


def main() -> int:
    chosen = options()
    try:
        asyncio.run(until_stopped(measure(chosen)))
    except (BenchFailed, ExceptionGroup) as failed:
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
