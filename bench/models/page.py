"""docs/small_models.md: what was measured, in tables. The words fit any figures."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Literal

import msgspec

from antiphon.core.exchange.announcements import announces_call
from bench.models.plan import names_of
from bench.models.results import PARTS, RESULTS, Part, Run, is_complete
from bench.models.subjects import SUBJECTS

PAGE = Path(__file__).parents[2] / "docs" / "small_models.md"
WIDTH = 128
MOST_FAILURES = 3
# Of what a model wrote where it failed.
MOST_SHOWN = 160

HEAD = """\
# What a small model gets done

This page is written by `make bench-models`. It measures {model} on {machine}:

{subjects}

To repeat it: `make bench-models`. It needs npm for Codex, and downloads the model if it is not there; with `--model FILE` and
`--codex FILE` it needs no network. It takes hours on two cores, and is continued where it was interrupted.
`make bench-models ARGS="--subjects help --parts questions"` measures a part, `--jobs` several at the same time. With
`--engine URL --device WORDS` a llama.cpp server that runs already serves the model to all gateways, with the same context for
each as the embedded engine. Codex runs without its sandbox, in temporary folders: the model may run any command.

Every set of tasks, conversations and questions has two halves. The help was made by one of them. The tables are about the other
one, which nothing was tried on.
"""
SUBJECT_LINES = {
    "help": '- **{title}**: `antiphon codex` and the gateway as they are shipped (`help = "auto"`).',
    "off": '- **{title}**: the same with `help = "off"`.',
    "engine": "- **{title}**: Codex, configured as without help, is answered by the engine's `/v1/responses`. The function\n"
    "  tools go to its `/v1/chat/completions`.",
}
INTRODUCTIONS: dict[Part, str] = {
    "tasks": """
Each task is given to `antiphon codex exec` in a fresh folder with a git repository, and judged by its files, and by the
last words of the model where the task is to say something. Sampling varies, so every task was done {times}. Times are
medians in seconds, from the start of the command. *Ended*: by itself, and not because its time was up, which is minutes.
*Repeated*: a call that had succeeded was made again at once. *Parroted*: the last words had a sentence of the gateway in
them. The tasks are in `bench/models/tasks.py` and `agent_tasks.py`.""",
    "conversations": """
Three turns each, with three or four function tools, {times}. A turn is right if every call that it needs was made once,
with the right arguments, nothing else was changed, and the answer in words says what the results say. *Ended*: how many had
an answer within eight calls in each turn. *Repeated*: how many conversations had a call that changes something made twice.
The conversations are in `bench/models/conversations.py`.""",
    "questions": """
Asked once at temperature 0, each with ten tools. Right is exactly the calls that are wanted, in one answer, with the right
arguments; and where no tool helps, an answer in words. A text that has the shape of a call is no answer in words. The
questions are in `bench/models/questions.py`.""",
}
TITLES: dict[Part, str] = {
    "tasks": "Tasks for Codex",
    "conversations": "Conversations with function tools",
    "questions": "Questions with function tools",
}
ROWS = {"one call": "one call", "two calls": "two calls", "in words": "answered in words"}
# Real endings, labelled by reading them: one JSON object in a line, with `model`, `announces`, and the last 400 characters.
ENDINGS = RESULTS.with_name("endings.jsonl")
ANNOUNCEMENTS = """\
## Calls that are announced, and not made

Models end their turn with "I will now run the tests." and make no call. With `announced_calls = "ask"` a model that was seen to
do so is asked once more, unseen, for the call or the answer; the client gets the words, and then what follows. That such words
announce a call is recognised by `core/exchange/announcements.py`. These are real endings of answers without a call where tools
were offered (`python -m bench.models.endings`), each once, labelled by reading them before the recogniser was run on them. The
hash of an ending chooses its half. The recogniser was tuned by one half, and only measured by the other one. Endings that were
collected with another seed were added to both halves later; nothing was tuned by them.

{table}

It is switched off by default (`announced_calls = "leave"`), although fewer than 2 in 100 of the other endings are taken for
announcements. {announcing} endings announce something ({models}), where at least
100 are wanted, of more than one family. What is missing is another family that announces calls, and large models. It was not
measured how often the call comes when it is asked for, nor what that does to tasks.
"""
FAILS = "## What still fails, with help"
NOTHING_FAILS = "Nothing did in these runs."


def page(runs: Sequence[Run]) -> str | None:
    """None: no subject has been measured completely. `runs`: of one model, and of the final half."""
    complete = {part: _complete(runs, part) for part in PARTS}
    shown = [run for part in PARTS for run in complete[part]]
    if not shown:
        return None
    subjects = [subject for name, subject in SUBJECTS.items() if any(run.subject == name for run in shown)]
    head = HEAD.format(
        model=shown[0].model,
        machine="; ".join(dict.fromkeys(run.machine for run in shown)),
        subjects="\n".join(SUBJECT_LINES[subject.name].format(title=subject.title) for subject in subjects),
    )
    sections = [line for part in PARTS if complete[part] for line in _section(part, complete[part])]
    return "\n".join([head, *sections, *_failures(shown), "", announcements()])


def left_out(runs: Sequence[Run]) -> list[str]:
    """What cannot be compared with the rest, because only a part of it was measured."""
    return [
        f"{TITLES[part].lower()} of {subject.title}, some of which were not measured"
        for part in PARTS
        for name, subject in SUBJECTS.items()
        if not any(run.subject == name for run in _complete(runs, part))
    ]


def tables(runs: Sequence[Run]) -> list[str]:
    """Of whatever was measured."""
    return [line for part in PARTS if (own := [run for run in runs if run.part == part]) for line in ["", *TABLES[part](own)]]


def _complete(runs: Iterable[Run], part: Part) -> list[Run]:
    names = names_of(part, "final")
    own = [run for run in runs if run.part == part and run.name in names]
    by_subject = ([run for run in own if run.subject == name] for name in SUBJECTS)
    return [run for each in by_subject if is_complete(each, names) for run in each]


def _section(part: Part, runs: Sequence[Run]) -> list[str]:
    counts = sorted({max(run.number for run in runs if run.subject == name) for name in _subjects(runs)})
    times = " or ".join("once" if count == 1 else f"{count} times" for count in counts)
    introduction = fill(
        " ".join(INTRODUCTIONS[part].format(times=times).split()), WIDTH, break_long_words=False, break_on_hyphens=False
    )
    return [f"## {TITLES[part]}", "", introduction, "", *TABLES[part](runs), ""]


def _task_tables(runs: Sequence[Run]) -> list[str]:
    lines = [_row("", "done", "seconds", "to the first call", "answers", "ended", "repeated", "parroted")]
    lines.append(_row("---", *["---:"] * 7))
    for name in _subjects(runs):
        own = [run for run in runs if run.subject == name]
        actions = [run.first_action for run in own if run.first_action is not None]
        times = (_median(run.seconds for run in own), _median(actions), _median(run.responses for run in own))
        lines.append(_row(f"**{SUBJECTS[name].title}**", _right(own), *times, *_faults(own)))
    lines += ["", *_by_kind(runs)]
    for name in _subjects(runs):
        if failures := dict.fromkeys(run.failure for run in runs if run.subject == name and run.failure):
            lines += ["", f"{SUBJECTS[name].title}, what went wrong: {'; '.join(map(_code, list(failures)[:MOST_FAILURES]))}."]
    return lines


def _faults(runs: Sequence[Run]) -> tuple[str, str, str]:
    ended = f"{sum(run.ended for run in runs)} of {len(runs)}"
    return ended, str(sum(bool(run.repeated) for run in runs)), str(sum(bool(run.parroted) for run in runs))


def _by_kind(runs: Sequence[Run], rows: dict[str, str] | None = None) -> list[str]:
    names = _subjects(runs)
    kinds = list(dict.fromkeys(run.kind for run in runs))
    lines = [_row("", *(SUBJECTS[name].title for name in names)), _row("---", *["---:"] * len(names))]
    for kind in kinds:
        own = ([run for run in runs if run.kind == kind and run.subject == name] for name in names)
        lines.append(_row((rows or {}).get(kind, kind), *map(_right, own)))
    return lines


def _conversation_table(runs: Sequence[Run]) -> list[str]:
    lines = [_row("", "turns right", "all three turns", "ended", "repeated", "parroted"), _row("---", *["---:"] * 5)]
    for name in _subjects(runs):
        own = [run for run in runs if run.subject == name]
        whole = f"{sum(run.is_right for run in own)} of {len(own)}"
        lines.append(_row(f"**{SUBJECTS[name].title}**", _right(own), whole, *_faults(own)))
    return lines


def _question_table(runs: Sequence[Run]) -> list[str]:
    return _by_kind(runs, ROWS)


TABLES = {"tasks": _task_tables, "conversations": _conversation_table, "questions": _question_table}


def _failures(runs: Sequence[Run]) -> list[str]:
    """The first one of each kind, by the words in which it ended."""
    failed: dict[tuple[str, str], Run] = {}
    for run in runs:
        if run.subject == "help" and not run.is_right:
            failed.setdefault((run.part, run.kind), run)
    named = [*_named(runs, "Made twice", "repeated"), *_named(runs, "Words of the gateway at the end", "parroted")]
    if not failed:
        return [FAILS, "", NOTHING_FAILS, *named]
    lines = [FAILS, "", _row("", "right", "an example", "what came of it"), _row("---", "---:", "---", "---")]
    for (part, kind), run in failed.items():
        own = [each for each in runs if (each.part, each.kind, each.subject) == (part, kind, "help")]
        lines.append(_row(ROWS.get(kind, kind), _right(own), _code(run.name), _code(run.failure or run.found)))
    return [*lines, *named]


def _named(runs: Sequence[Run], title: str, member: Literal["repeated", "parroted"]) -> list[str]:
    """Which runs it happened in, with what was repeated, and how often."""
    found = Counter((run.name, what) for run in runs if run.subject == "help" for what in getattr(run, member))
    rows = [f"{_code(name)}, {_code(what)} ({count})" for (name, what), count in found.items()]
    return ["", f"{title}, by the task or conversation: {'; '.join(rows)}."] if rows else []


def announcements() -> str:
    """The section about endings, from those that were labelled."""
    rows = [msgspec.json.decode(line) for line in ENDINGS.read_bytes().splitlines()]
    table = [
        _row("half", "model", "announce", "recognised", "do not", "taken for announcements"),
        _row("---", "---", *["---:"] * 4),
    ]
    for number, half in enumerate(("tuning", "held out")):
        for model in dict.fromkeys(row["model"] for row in rows):
            own = [row for row in rows if row["model"] == model and _half_of(row["text"]) == number]
            seen = {is_so: [announces_call(row["text"]) for row in own if row["announces"] is is_so] for is_so in (True, False)}
            counts = (str(count) for verdicts in seen.values() for count in (len(verdicts), sum(verdicts)))
            table.append(_row(half, model, *counts))
    announcing = Counter(row["model"] for row in rows if row["announces"])
    models = ", ".join(f"{count} of {model}" for model, count in announcing.most_common())
    return ANNOUNCEMENTS.format(table="\n".join(table), announcing=announcing.total(), models=models)


def _half_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 2


def _subjects(runs: Iterable[Run]) -> list[str]:
    measured = {run.subject for run in runs}
    return [name for name in SUBJECTS if name in measured]


def _right(runs: Iterable[Run]) -> str:
    own = list(runs)
    return f"{sum(run.right for run in own)} of {sum(run.asked for run in own)}" if own else "–"


def _median(values: Iterable[float]) -> str:
    known = list(values)
    return f"{median(known):.1f}" if known else "–"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Its end: what a run ended with says more than how it began."""
    plain = " ".join(text.replace("`", "'").replace("|", "¦").split())
    return f"`{plain if len(plain) <= MOST_SHOWN else '… ' + plain[-MOST_SHOWN:]}`"
