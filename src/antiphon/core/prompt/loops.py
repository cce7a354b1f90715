"""Loops: the same call again and again, although it fails, or gives the same result each time.

A small model does not see that it repeats itself. A call that has succeeded is not made again at once: it is withheld, and the
answer asked for again, unless its tool is one that polls. One that may have changed something, as sending a message does, is
not made again before the user's next message, whatever was called since, unless its result says no. From the third time on, the
result of a call that fails, or gives the same result, ends with a note that says what to do instead. If the model makes it once
more, its tool may not be called until another call succeeds. When nothing has succeeded for a number of turns, no tool may be
called at all, and the model says what has failed. A note depends on what precedes it in the conversation and on nothing else,
so that a longer history begins with the same messages.

A dead end is a loop of different calls: turn after turn, all of them fail with one and the same output. Then the tools that
were called may not be called until another call succeeds. If the output says that the tool cannot be used at all, no arguments
can help, and this holds for every model. Clients that carry out no calls, and ask again after each, would go on without end.

A user's message ends every loop: the user may have changed what made the call fail, or wants to see it made again.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
from msgspec import Struct, field, structs

from antiphon.core.prompt.results import FAILURES, LONGEST_MESSAGE, UNUSABLE, Result, result_of
from antiphon.core.prompt.turns import AssistantTurn, Call, UserTurn
from antiphon.core.toolbox.choice import Offer
from antiphon.core.toolbox.prompt_texts import ALL_FAIL, ANSWER_INSTEAD, FAILED_AGAIN, SAME_AGAIN
from antiphon.core.toolbox.tools import may_poll
from antiphon.partial_json import canonical_arguments
from antiphon.patterns import late_pattern

# After this many times a note asks the model to stop, and after this many its tool is withheld.
TOLD_AT = 3
WITHHELD_AT = 4
# After this many turns in which everything failed, failures of one call, or turns altogether, a small model has to answer.
ENDED_AT = 8
MOST_TURNS = 50
# After this many turns with one failure, the tools of a dead end are withheld, and a note says why.
DEAD_END_AT = 5

NOTED = "call {id} of {name} ends a loop: a note in its result asks the model to do something else"
WITHHELD = "{name} may not be called in this answer: {reason}"


class Reason(StrEnum):
    """Why a tool, or all of them, may not be called: the end of a sentence, in which a number may be missing."""

    HAS_FAILED = "the same call of it has failed {count} times"
    HAS_REPEATED = "the same call of it has given the same result {count} times"
    HAVE_ALL_FAILED = "all calls of the last {count} turns have failed with the same output"
    NOTHING_RUNS = "no result says that something is still running"
    # Those that end a loop as a whole, and the sentence that they are the end of.
    NOTHING_SUCCEEDS = "everything has failed in the last {count} turns"
    NO_PROGRESS = "one call has failed {count} times"
    TOO_MANY_TURNS = "it has called tools in {count} turns"
    HAS_ENDED = "the model has to answer now: {reason}"


# What the result of a call that has done nothing may say, without the form of an error: "Ada is not registered yet." The call
# may be made again when the cause is gone.
_SAYS_NO = late_pattern(
    r"\b(?:not|cannot|unable|first|declined|denied|failed|insufficient|invalid|refused|rejected|unavailable)\b|n['’]t\b"
    r"|\A\W{0,9}\w+\W{1,9}false\W{0,9}\Z",
    re.IGNORECASE,
)
_LONGEST_NO = 200
# What is not from the user begins so, and what ends it.
_ADDED = late_pattern(r"\s*<(system_message|system-reminder)>")
# The folders in front of the name of a file.
_FOLDERS = late_pattern(rb"(?<![\w.@+~-])(?:~|[\w.@+-]{0,255})/(?:[\w.@+-]{0,255}/){0,64}(?=[\w.@+-])")
# Lines of Codex that differ each time.
_VOLATILE = late_pattern(r"^(?:Chunk ID|Wall time): .*\n?", re.MULTILINE)
_NUMBER = late_pattern(r"\d+")
# Numbers that differ each time, whatever has become better or worse: times, processes, sessions.
_INCIDENTAL = late_pattern(
    r"\d+(?:\.\d+)?(?= ?(?:ms|s|secs?|seconds)\b)|(?<=\bprocess )\d+|(?<=\bsession )\d+|(?<=\bid )\d+|(?<=\bpid )\d+",
    re.IGNORECASE,
)


def changes_nothing(name: str) -> bool:
    """Of all tools, as long as nothing is known of them."""
    return False


class Loops(NamedTuple):
    """The calls whose results get a note, and why tools may not be called in the next answer."""

    notes: Sequence[tuple[Call, str]]
    withheld: Mapping[str, str]
    # Why no tool may be called at all.
    ended: str = ""
    # By their names and arguments: the calls of the turn at the end that have succeeded, which are not made again at once; and
    # those since the user's message that may have changed something.
    made: frozenset[Hashable] = frozenset()
    # A result says that something is still running.
    waits: bool = False


class _Run(Struct):
    """One call with the same arguments, again and again."""

    failures: int = 0
    failed_with: str | None = None
    repeats: int = 0
    output: Hashable = None


class _DeadEnd(Struct):
    """Turns in a row all of whose calls have failed with the same output."""

    turns: int = 0
    output: str | None = None
    # The tools that were called, in their order.
    names: dict[str, None] = field(default_factory=dict)
    # Why tools may not be called. Until a call succeeds: another failure, of another tool, makes them no better.
    withheld: dict[str, str] = field(default_factory=dict)

    def add(self, calls: Sequence[Call], *, helped: bool) -> None:
        """The calls of one turn."""
        output = _failure(calls[0], helped=helped) if calls else None
        if output is None or any(_failure(call, helped=helped) != output for call in calls[1:]):
            self.turns, self.output, self.names = 0, None, {}
            self.withheld.clear()
            return
        if output != self.output:
            self.turns, self.output, self.names = 0, output, {}
        self.turns += 1
        self.names.update(dict.fromkeys(call.name for call in calls))
        if self.turns >= DEAD_END_AT:
            self.withheld.update(dict.fromkeys(self.names, Reason.HAVE_ALL_FAILED.format(count=self.turns)))


class _Reader(Struct):
    # The model gets help. Without it, only dead ends are found in which no call can succeed.
    helped: bool = True
    # Further tools that may be called again at once.
    polls: Collection[str] = ()
    # A call of this tool may have changed something.
    changes: Callable[[str], bool] = changes_nothing
    notes: list[tuple[Call, str]] = field(default_factory=list)
    withheld: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    waits: bool = False
    # The calls of the turn at the end that are not made again at once; and those since the user's message that are not made
    # again at all, by their keys.
    _just_made: frozenset[Hashable] = frozenset()
    _changed: dict[Hashable, Call] = field(default_factory=dict)
    # By their names and arguments: the calls that have succeeded; and those that have failed, without the folders of paths.
    _succeeded: dict[Hashable, _Run] = field(default_factory=dict)
    _failed: dict[Hashable, _Run] = field(default_factory=dict)
    # The tools that have given another result to the same call.
    _polling: set[str] = field(default_factory=set)
    # The calls of the turn before, and those of them that have succeeded.
    _before: frozenset[Hashable] = frozenset()
    _done: frozenset[Hashable] = frozenset()
    _dead_end: _DeadEnd = field(default_factory=_DeadEnd)
    # The turns since the user's message; and how many of them at the end had nothing but failures.
    _turns: int = 0
    _failing: int = 0

    @property
    def has_seen_calls(self) -> bool:
        """There is something that a user's message ends."""
        end = self._dead_end
        return bool(self._before or self._turns or self.withheld or end.turns or end.withheld)

    def user(self) -> None:
        self._end_all()
        self._succeeded.clear()
        self._failed.clear()
        self._changed.clear()
        self._before = self._done = frozenset()
        self._dead_end = _DeadEnd()

    def made(self) -> frozenset[Hashable]:
        lasting = (key for key, call in self._changed.items() if not self._polls(call))
        return self._just_made.union(lasting) if self._changed else self._just_made

    def _end_all(self) -> None:
        self.withheld.clear()
        self._just_made = frozenset()
        self._turns = self._failing = 0
        self.ended = ""

    def turn(self, turn: AssistantTurn) -> None:
        if self.helped:
            self._count(turn)
        else:
            self.withheld.clear()
        # After the notes about repeated calls: of two notes about one call, the last one counts.
        self._count_failures(turn)

    def _count_failures(self, turn: AssistantTurn) -> None:
        end = self._dead_end
        end.add(turn.calls, helped=self.helped)
        if end.turns >= DEAD_END_AT:
            self.notes.append((turn.calls[-1], ALL_FAIL.format(count=end.turns, names=", ".join(end.names))))
        self.withheld.update(end.withheld)
        if self.ended and turn.calls:
            self.notes.append((turn.calls[-1], ANSWER_INSTEAD.format(reason=self.ended)))

    def _count(self, turn: AssistantTurn) -> None:
        """Calls that are made together count once: the model had not seen what came of them."""
        calls = {key_of(call): call for call in reversed(turn.calls) if call.answered}
        if not calls:
            # An answer in words, or a call without a result.
            self._end_all()
            return
        self._turns += 1
        results = {key: _result(call) for key, call in calls.items()}
        self.waits = self.waits or Result.WAITS in results.values()
        succeeded = {key for key, result in results.items() if result not in FAILURES}
        if succeeded - self._done:
            # Another call has succeeded: what was withheld may do better now.
            self.withheld.clear()
        self._failing = 0 if succeeded else self._failing + 1
        repeats = calls.keys() == self._before
        failures = 0
        for key, call in reversed(calls.items()):
            run = self._run_of(key, call, results[key], repeats=repeats)
            self._judge(run, call)
            failures = max(failures, run.failures)
        self._before, self._done = frozenset(calls), frozenset(succeeded)
        done = [key for key, result in results.items() if result is Result.SUCCEEDED]
        self._just_made = frozenset(key for key in done if not self._may_poll(calls[key], self._succeeded[key]))
        self._changed.update((key, calls[key]) for key in done if self.changes(calls[key].name) and not _says_no(calls[key]))
        self._end(failures)

    def _run_of(self, key: Hashable, call: Call, result: Result, *, repeats: bool) -> _Run:
        if result in FAILURES:
            run = self._failed.setdefault(_anywhere(call), _Run())
            _count_failure(run, call, result, repeats=repeats)
            return run
        self._failed.pop(_anywhere(call), None)
        run = self._succeeded.setdefault(key, _Run())
        output = (_VOLATILE.sub("", call.output()), msgspec.json.encode(call.media))
        if run.output not in (None, output):
            self._polling.add(call.name)
        run.repeats = 0 if result is Result.WAITS else run.repeats + 1 if repeats and output == run.output else 1
        run.output = output
        return run

    def _may_poll(self, call: Call, run: _Run) -> bool:
        """The same call may have another result now, or is made to wait for one. Two that are the same say that it has none."""
        if run.repeats > 1 and not _matches(call.name, self.polls):
            return False
        return self._polls(call)

    def _polls(self, call: Call) -> bool:
        return call.name in self._polling or may_poll(call.name) or _matches(call.name, self.polls)

    def _judge(self, run: _Run, call: Call) -> None:
        failed = run.failures >= run.repeats
        count = max(run.failures, run.repeats)
        if count >= TOLD_AT:
            self.notes.append((call, (FAILED_AGAIN if failed else SAME_AGAIN).format(count=count)))
        if count >= WITHHELD_AT:
            self.withheld[call.name] = (Reason.HAS_FAILED if failed else Reason.HAS_REPEATED).format(count=count)

    def _end(self, failures: int) -> None:
        """`failures`: how often a call of this turn has failed."""
        self.ended = ""
        if self._failing >= ENDED_AT:
            self.ended = Reason.NOTHING_SUCCEEDS.format(count=self._failing)
        elif failures >= ENDED_AT:
            self.ended = Reason.NO_PROGRESS.format(count=failures)
        elif self._turns >= MOST_TURNS:
            self.ended = Reason.TOO_MANY_TURNS.format(count=self._turns)


NO_LOOPS = Loops((), {})


def find_loops(
    turns: Sequence[AssistantTurn | UserTurn],
    *,
    helped: bool = True,
    polls: Collection[str] = (),
    changes: Callable[[str], bool] = changes_nothing,
) -> Loops:
    """Linear in the length of the turns. `helped`: the model is small. Others are only kept from calls that cannot succeed.
    `polls`: patterns of the names of tools that may be called again at once, beside those that are known. `changes`: a call of
    this tool may have changed something."""
    if len(turns) == 1 and isinstance(turns[0], UserTurn):
        return NO_LOOPS
    if not helped and not _may_be_dead_end(turns):
        return NO_LOOPS
    reader = _Reader(helped=helped, polls=polls, changes=changes)
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            reader.turn(turn)
        elif reader.has_seen_calls and not _says_nothing(turn):
            reader.user()
    return Loops(reader.notes, reader.withheld, reader.ended, reader.made(), reader.waits)


def _may_be_dead_end(turns: Sequence[AssistantTurn | UserTurn]) -> bool:
    """So many calls say that their tool cannot be used that the turns of a dead end may be among them. All but a few
    conversations have none, which is all that there is to find out if the model is not helped."""
    called = [turn.calls[0] for turn in turns if isinstance(turn, AssistantTurn) and turn.calls]
    short = [call for call in called if call.answered and sum(map(len, call.texts)) <= LONGEST_MESSAGE]
    return sum(UNUSABLE.match(call.output()) is not None for call in short) >= DEAD_END_AT


def _says_nothing(turn: UserTurn) -> bool:
    """The user says nothing. Clients that must send a message beside the outputs of calls send an empty one, and instructions
    and reminders are the client's own."""
    return all(part["type"] == "text" and _is_added(part["text"]) for part in turn.parts)


def _is_added(text: str) -> bool:
    at = 0
    while (added := _ADDED.match(text, at)) is not None:
        end = f"</{added[1]}>"
        if (found := text.find(end, added.end())) < 0:
            return False
        at = found + len(end)
    return not text[at:].strip()


def _says_no(call: Call) -> bool:
    output = call.output()
    return len(output) <= _LONGEST_NO and _SAYS_NO.search(output) is not None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def key_of(call: Call) -> Hashable:
    return call.name, canonical_arguments(call.arguments)


def _anywhere(call: Call) -> Hashable:
    """The call, whichever folder its paths begin with: a small model that fails tries the same file by its whole path."""
    return call.name, _FOLDERS.sub(b"", canonical_arguments(call.arguments))


def _result(call: Call) -> Result:
    return result_of(_VOLATILE.sub("", call.output()), reported=call.failed)


def _count_failure(run: _Run, call: Call, result: Result, *, repeats: bool) -> None:
    """`repeats`: the turn has the same calls as the one before it. After anything else, the result may be another one. Another
    failure after something else was done is progress: tests are run, the code is changed, and they are run again. Fewer
    failures are progress, too."""
    text = _without_arguments(_VOLATILE.sub("", call.output()), call.arguments)
    varies = _NUMBER if repeats else _INCIDENTAL
    same = run.failed_with is not None and varies.sub("0", text) == varies.sub("0", run.failed_with)
    run.failures = run.failures + 1 if same or (repeats and result is Result.FAILED) else 1
    run.failed_with = text


def _failure(call: Call, *, helped: bool) -> str | None:
    """The output, if it is a message of failure and nothing else. An exit code is none: the command was run, and quiet ones
    that find nothing all end with the same."""
    if not call.answered or call.media:
        return None
    output = call.output()
    if len(output) > LONGEST_MESSAGE:
        return None
    failed = (
        result_of(output, reported=call.failed) in (Result.LOOKS_FAILED, Result.UNUSABLE)
        if helped
        else UNUSABLE.match(output) is not None
    )
    return _without_arguments(output, call.arguments) if failed else None


def _without_arguments(output: str, arguments: str) -> str:
    """The message but for what the call itself has said, such as the name of a file."""
    said = (value for value in msgspec.json.decode(arguments).values() if isinstance(value, str))
    for value in sorted((value for value in said if len(value) > 1), key=len, reverse=True):
        output = output.replace(value, "…")
    return output


# ---- tools that may not be called ------------------------------------------------------------------------------------


def offer_without(offer: Offer, withheld: Mapping[str, str], own_names: Collection[str] = ()) -> Offer:
    """The same tools in the prompt, so that the engine's prefix cache stays valid; but these may not be called. What the client
    requires comes first: if one of them has to be called, nothing is withheld. `own_names`: those of tools that are offered as
    easy functions."""
    names = offer.names
    left = tuple(name for name in names if name not in withheld)
    reasons = {name: withheld[name] for name in (*names, *own_names) if name in withheld}
    if not reasons or (offer.must_call and not left):
        return offer
    if left == names:
        return structs.replace(offer, withheld=reasons)
    if not left and (offer.say is not None or offer.in_words):
        # The prompt stays as it was. The answer can only be one in words, or a call in it is left out.
        return structs.replace(offer, only=(), withheld=reasons)
    if not left:
        return Offer([], only=(), withheld=reasons)
    # An engine that makes sure of a call chooses among the tools that it sees.
    by_engine = offer.must_call and not offer.constrained
    tools = [tool for tool in offer.tools if tool.function.name in left] if by_engine else offer.tools
    return structs.replace(offer, tools=tools, only=left, withheld=reasons)


def withheld_to_notices(offer: Offer) -> Iterable[str]:
    """What may not be called because nothing is running is said once, where the help is."""
    withheld = ((name, reason) for name, reason in offer.withheld.items() if reason != Reason.NOTHING_RUNS)
    return (WITHHELD.format(name=name, reason=reason) for name, reason in withheld)
