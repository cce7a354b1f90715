"""The part of docs/comparison.md about the endpoints: tables of what was found. The words fit any figures."""

from collections.abc import Iterable, Iterator, Sequence

from bench import results as gateways
from bench.endpoints.questions import APIS, KINDS, counts
from bench.endpoints.results import Finding, Results
from bench.endpoints.subjects import SUBJECTS

NOTHING = "–"
HEAD = """\
Three servers in front of the same llama.cpp were asked the same: llama.cpp's own endpoints, LiteLLM's, and Antiphon's. A figure
says how many answers were right, of how many. The sections below say what was asked.
"""
ELSEWHERE = """\
vLLM, SGLang, LMDeploy, Ollama and LM Studio have endpoints of their own, too. They do not run on the machine of this page, so
there are no figures of them.
"""
REPEAT = """\
To repeat it: `make bench-endpoints`. It takes some hours on two cores, and goes on where it was stopped.
`ARGS="--parts checks"` measures one part (`checks`, `suite`, `questions`, `cache`), `ARGS="--subjects antiphon"` one server.
`ARGS="--engine URL"` asks the questions of a llama.cpp that runs already. `bench/results/endpoints.jsonl` has the results, and
what was wrong.
"""
CHECKS = """\
## Whether the answers have the form of the API

Each API gets five requests, whole and streamed: a text, instructions, several turns, a tool, a required tool. Only the form of
the answers is judged, so the weights are random. A missing member is a fault; one that the API does not have is none. Responses
are judged by the schemas of OpenAI and Open Responses, the other two by the types of the SDKs.

The broken requests have no messages, an unknown role, an unknown content part, and a word in place of a number. Antiphon passes
plain requests for Chat Completions through, so what it answers to broken ones is what llama.cpp answers.
"""
SUITE = """\
## A suite that others wrote

llm-comply, a Python package, asks each API what its documentation promises, and judges the answers by
schemas of its own. For Responses it has ten tests with the names of those that
[Open Responses](https://www.openresponses.org/compliance) publishes, none of which is over a WebSocket, and two more.
Open Responses' own program was not run: it comes from GitHub, which the machine of this page does not reach.

The weights are random and see nothing, so the tests of images fail everywhere; those of thoughts are left out. In whole answers
of Messages and Chat Completions, the suite requires members that all three leave out, such as `inference_geo` and `refusal`.
Its tests of compaction also pass where there is no such endpoint. Its broken request for Responses has no model: llama.cpp and
Antiphon answer it with the one that they have.
"""
QUESTIONS = """\
## Questions with function tools

{asked} questions, each with ten tools, at temperature 0. Right is exactly the calls that are wanted, with the right arguments;
and where no tool helps, an answer in words. `bench/models/questions.py` has the questions: nothing was tried on them. Antiphon
helps small models (`help = "auto"`): [small_models.md](small_models.md) has more about that. Chat Completions are answered
without that help, unless `chat_help` is set, which it is not here.
"""
CACHE = """\
## Claude Code's prompts from the cache

A recorded session of Claude Code has 22 prompts in ten turns, and the first prompt of another session follows. The share of
their tokens that came from llama.cpp's prompt cache, by the `usage` of the answers.
[claude_code.md](claude_code.md#the-prompt-cache) says how it is measured.
"""


def sections(results: Results) -> str:
    """In Markdown: what was found of each part."""
    return "\n".join([*_checks(results), *_suite(results), *_questions(results), *_cache(results)])


# ---- in short --------------------------------------------------------------------------------------------------------


def summary(results: Results) -> str:
    """In Markdown: a row for each part. Nothing, if nothing was found."""
    if not results.findings:
        return ""
    rows = [
        (f"checks of the form, {api.title}", [_sum(results.of("checks", name), each) for each in SUBJECTS])
        for name, api in APIS.items()
    ]
    rows += [
        (f"tests of llm-comply, {api.title}", [_sum(results.of("suite", name), each) for each in SUBJECTS])
        for name, api in APIS.items()
    ]
    rows += [
        (f"questions with tools, {api.title}", [_sum(results.of("questions", name), each) for each in SUBJECTS])
        for name, api in APIS.items()
    ]
    rows += [
        (f"Claude Code, cached: {row}", [_share(results, row, each) for each in SUBJECTS])
        for row in _names(results.of("cache"))
    ]
    shown = [(name, cells) for name, cells in [*rows, *_speed()] if any(cell != NOTHING for cell in cells)]
    return "\n".join([HEAD, *_table(shown), "", REPEAT, ELSEWHERE])


def _speed() -> Iterator[tuple[str, Sequence[str]]]:
    """Of the run of `make bench`, which has llama.cpp replaced by a mock engine."""
    found = gateways.read()
    for scenario, figure, title in (
        ("whole", "CPU per request", "CPU of a whole answer, ms"),
        ("text-1000", "CPU per delta", "CPU of a streamed delta, µs"),
    ):
        row = found.row(scenario, figure)
        if row is not None:
            middles = (found.middle(row, column) for column in ("litellm", "antiphon"))
            yield (
                f"{title} ([below](#beside-nginx-and-litellm))",
                [NOTHING, *(NOTHING if each is None else gateways.number(each) for each in middles)],
            )


# ---- one part each ---------------------------------------------------------------------------------------------------


def _checks(results: Results) -> Iterator[str]:
    if not results.of("checks"):
        return
    yield CHECKS
    for name, api in APIS.items():
        found = results.of("checks", name)
        rows = [(check, [_cell(each) for each in _of_subjects(found, check)]) for check in _names(found)]
        yield "\n".join([f"### {api.title}", "", *_table(rows), ""])
    yield _versions(results, "checks")


def _suite(results: Results) -> Iterator[str]:
    found = results.of("suite")
    if not found:
        return
    yield SUITE
    for name, api in APIS.items():
        of_api = results.of("suite", name)
        rows = [(test, [_verdict(each) for each in _of_subjects(of_api, test)]) for test in _names(of_api)]
        yield "\n".join([f"### {api.title}, by llm-comply", "", *_table(rows), ""])
    yield _versions(results, "suite")


def _questions(results: Results) -> Iterator[str]:
    found = results.of("questions")
    if not found:
        return
    yield QUESTIONS.format(asked=len({each.name for each in found}))
    rows = [
        (f"{api.title}, {row}", [_of(*counts(results, name, subject, kind)) for subject in SUBJECTS])
        for name, api in APIS.items()
        for kind, row in KINDS.items()
    ]
    yield "\n".join([*_table(rows), ""])
    yield _versions(results, "questions")


def _cache(results: Results) -> Iterator[str]:
    found = results.of("cache")
    if not found:
        return
    yield CACHE
    yield "\n".join([*_table([(row, [_share(results, row, each) for each in SUBJECTS]) for row in _names(found)]), ""])
    yield _versions(results, "cache")


# ---- cells -----------------------------------------------------------------------------------------------------------


def _table(rows: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    titles = [subject.title for subject in SUBJECTS.values()]
    lines = [f"| | {' | '.join(titles)} |", f"| --- |{' ---: |' * len(titles)}"]
    return [*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)]


def _names(found: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(each.name for each in found))


def _of_subjects(found: Sequence[Finding], name: str) -> list[Finding | None]:
    return [next((each for each in found if (each.subject, each.name) == (subject, name)), None) for subject in SUBJECTS]


def _cell(found: Finding | None) -> str:
    return NOTHING if found is None else _of(found.right, found.asked)


def _verdict(found: Finding | None) -> str:
    return NOTHING if found is None else "passed" if found.right else "failed"


def _of(right: int, asked: int) -> str:
    return f"{right} of {asked}" if asked else NOTHING


def _sum(found: Sequence[Finding], subject: str) -> str:
    own = [each for each in found if each.subject == subject]
    return _of(sum(each.right for each in own), sum(each.asked for each in own))


def _share(results: Results, row: str, subject: str) -> str:
    found = next((each for each in results.of("cache") if (each.subject, each.name) == (subject, row)), None)
    return NOTHING if found is None else f"{found.right / found.asked:.1%}".replace("%", " %")


def _versions(results: Results, part: str) -> str:
    setups = [results.setups[part, subject] for subject in SUBJECTS if (part, subject) in results.setups]
    versions = dict.fromkeys(version for each in setups for version in each.versions)
    models, machines = (
        " and ".join(dict.fromkeys(each)) for each in zip(*((each.model, each.machine) for each in setups), strict=True)
    )
    return f"Measured with {', '.join(versions)}; model: {models}; on {machines}.\n"
