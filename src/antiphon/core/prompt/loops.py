"""Loops: the same call again and again, although it fails, or gives the same result each time.

A small model does not see that it repeats itself. From the third time on, the result of the call ends with a note that says
what to do instead. If the model makes the call once more, its tool may not be called in the next answer. A note depends on what
precedes it in the conversation and on nothing else, so that a longer history begins with the same messages.

A dead end is a loop of different calls: turn after turn, all of them fail with one and the same output. Then the tools that
were called may not be called until another call succeeds. If the output says that the tool cannot be used at all, no arguments
can help, and this holds for every model. Clients that carry out no calls, and ask again after each, would go on without end.

A user's message ends every loop: the user may have changed what made the call fail, or wants to see it made again.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
from msgspec import Struct, field, structs

from antiphon.core.prompt.turns import AssistantTurn, Call, UserTurn
from antiphon.core.toolbox.choice import Offer
from antiphon.core.toolbox.prompt_texts import ALL_FAIL, FAILED_AGAIN, SAME_AGAIN
from antiphon.partial_json import canonical_arguments

# After this many times a note asks the model to stop, and after this many its tool is withheld.
TOLD_AT = 3
WITHHELD_AT = 4
# After this many turns with one failure, the tools of a dead end are withheld, and a note says why.
DEAD_END_AT = 5

HAS_FAILED = "the same call of it has failed {count} times"
HAS_REPEATED = "the same call of it has given the same result {count} times"
HAVE_ALL_FAILED = "all calls of the last {count} turns have failed with the same output"
NOTED = "call {id} of {name} ends a loop: a note in its result asks the model to do something else"
WITHHELD = "{name} may not be called in this answer: {reason}"


class Result(Enum):
    SUCCEEDED = "it did what it was called for, as far as can be seen"
    FAILED = "it failed, whatever the output says"
    LOOKS_FAILED = "words of failure, which other outputs may have, too: only the same short output again counts"
    UNUSABLE = "the tool was not run, and would not have been with other arguments"
    WAITS = "something is still running: calling again is how one waits for it"


class Sign(NamedTuple):
    pattern: re.Pattern[str]
    result: Result


# The first that is found counts. An exit code says more than any of them.
# The first one in a text is that of the call. Others are part of what it printed.
_EXIT = re.compile(r"(?:^(?:Exit code:|Process exited with code)|\"exit_code\":) *(-?\d+)\b", re.MULTILINE)
_WORDS = (
    r"\b(?:errors?|exceptions?|traceback|fail(?:ed|ure|ures|s)?|not (?:found|exist|allowed|supported|permitted)|unknown"
    r"|unsupported|invalid|no such (?:file|process|session)|cannot|denied|refused|aborted|timed out)\b|\w(?:error|exception)\b"
)
# A count of them that is none, or a member without a value.
_NONE = r"(?![\"']?\s{0,9}[:=]\s{0,9}(?:0\b|null|none|false|\[\]|\"\"))"
# Only as the first words of an output: a tool that runs may print them, too.
_UNUSABLE = re.compile(
    r"\A\W{0,3}(?:error: )?(?:no usable (?:execution )?environment\b|unsupported call\b|(?:no such|unknown|unsupported) tool\b"
    r"|(?:the |this )?tool(?: [\w.`'\"-]{1,64})? is (?:currently )?"
    r"(?:not (?:available|enabled|supported)|unavailable|disabled)\b)",
    re.IGNORECASE,
)
SIGNS = (
    Sign(_UNUSABLE, Result.UNUSABLE),
    Sign(re.compile(r"^Process running with session ID|\bstill running\b", re.MULTILINE | re.IGNORECASE), Result.WAITS),
    Sign(re.compile(r"\"timed_out\": *true|\"status\": *\"(?:in_progress|queued|pending|running)\""), Result.WAITS),
    Sign(re.compile(rf"(?<!\bno )(?<!\b0 )(?<!without )(?:{_WORDS}){_NONE}", re.IGNORECASE), Result.LOOKS_FAILED),
)
# Where the signs are looked for: outputs begin with what happened, or end with it. What is longer than both is more than the
# message of an error.
_HEAD, _TAIL = 600, 200
_LONGEST_MESSAGE = _HEAD + _TAIL
_FAILURES = (Result.FAILED, Result.LOOKS_FAILED, Result.UNUSABLE)
# Lines of Codex that differ each time.
_VOLATILE = re.compile(r"^(?:Chunk ID|Wall time): .*\n?", re.MULTILINE)
_NUMBER = re.compile(r"\d+")
# Numbers that differ each time, whatever has become better or worse: times, processes, sessions.
_INCIDENTAL = re.compile(
    r"\d+(?:\.\d+)?(?= ?(?:ms|s|secs?|seconds)\b)|(?<=\bprocess )\d+|(?<=\bsession )\d+|(?<=\bid )\d+|(?<=\bpid )\d+",
    re.IGNORECASE,
)


class Loops(NamedTuple):
    """The calls whose results get a note, and why tools may not be called in the next answer."""

    notes: Sequence[tuple[Call, str]]
    withheld: Mapping[str, str]


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
            self.withheld.update(dict.fromkeys(self.names, HAVE_ALL_FAILED.format(count=self.turns)))


class _Reader(Struct):
    # The model gets help. Without it, only dead ends are found in which no call can succeed.
    helped: bool = True
    notes: list[tuple[Call, str]] = field(default_factory=list)
    withheld: dict[str, str] = field(default_factory=dict)
    _runs: dict[Hashable, _Run] = field(default_factory=dict)
    # The calls of the turn before.
    _before: frozenset[Hashable] = frozenset()
    _dead_end: _DeadEnd = field(default_factory=_DeadEnd)

    @property
    def has_seen_calls(self) -> bool:
        """There is something that a user's message ends."""
        end = self._dead_end
        return bool(self._runs or self._before or self.withheld or end.turns or end.withheld)

    def user(self) -> None:
        self.withheld.clear()
        self._runs.clear()
        self._before = frozenset()
        self._dead_end = _DeadEnd()

    def turn(self, turn: AssistantTurn) -> None:
        self.withheld.clear()
        if self.helped:
            self._count_repeats(turn)
        # After the notes about repeated calls: of two notes about one call, the last one counts.
        self._count_failures(turn)

    def _count_failures(self, turn: AssistantTurn) -> None:
        end = self._dead_end
        end.add(turn.calls, helped=self.helped)
        if end.turns >= DEAD_END_AT:
            self.notes.append((turn.calls[-1], ALL_FAIL.format(count=end.turns, names=", ".join(end.names))))
        self.withheld.update(end.withheld)

    def _count_repeats(self, turn: AssistantTurn) -> None:
        """Calls that are made together count once: the model had not seen what came of them."""
        calls: dict[Hashable, Call] = {}
        for call in turn.calls:
            if call.answered:
                calls.setdefault((call.name, canonical_arguments(call.arguments)), call)
        if not calls:
            return
        repeats = calls.keys() == self._before
        self._before = frozenset(calls)
        for key, call in calls.items():
            run = self._runs.setdefault(key, _Run())
            _count(run, call, repeats=repeats)
            self._judge(run, call)

    def _judge(self, run: _Run, call: Call) -> None:
        failed = run.failures >= run.repeats
        count = max(run.failures, run.repeats)
        if count >= TOLD_AT:
            self.notes.append((call, (FAILED_AGAIN if failed else SAME_AGAIN).format(count=count)))
        if count >= WITHHELD_AT:
            self.withheld[call.name] = (HAS_FAILED if failed else HAS_REPEATED).format(count=count)


NO_LOOPS = Loops((), {})


def find_loops(turns: Sequence[AssistantTurn | UserTurn], *, helped: bool = True) -> Loops:
    """Linear in the length of the turns. `helped`: the model is small. Others are only kept from calls that cannot succeed."""
    if len(turns) == 1 and isinstance(turns[0], UserTurn):
        return NO_LOOPS
    if not helped and not _may_be_dead_end(turns):
        return NO_LOOPS
    reader = _Reader(helped=helped)
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            reader.turn(turn)
        elif reader.has_seen_calls and not _says_nothing(turn):
            reader.user()
    return Loops(reader.notes, reader.withheld)


def _may_be_dead_end(turns: Sequence[AssistantTurn | UserTurn]) -> bool:
    """So many calls say that their tool cannot be used that the turns of a dead end may be among them. All but a few
    conversations have none, which is all that there is to find out if the model is not helped."""
    called = [turn.calls[0] for turn in turns if isinstance(turn, AssistantTurn) and turn.calls]
    short = [call for call in called if call.answered and sum(map(len, call.texts)) <= _LONGEST_MESSAGE]
    return sum(_UNUSABLE.match(call.output()) is not None for call in short) >= DEAD_END_AT


def _says_nothing(turn: UserTurn) -> bool:
    """Clients that must send a message beside the outputs of calls send an empty one."""
    return all(part["type"] == "text" and (not part["text"] or part["text"].isspace()) for part in turn.parts)


def _count(run: _Run, call: Call, *, repeats: bool) -> None:
    """`repeats`: the turn has the same calls as the one before it. After anything else, the result may be another one."""
    text = _VOLATILE.sub("", call.output())
    result = result_of(text)
    if result in _FAILURES:
        # Another failure after something else was done is progress: tests are run, the code is changed, and they are run again.
        # Fewer failures are progress, too.
        varies = _NUMBER if repeats else _INCIDENTAL
        same = run.failed_with is not None and varies.sub("0", text) == varies.sub("0", run.failed_with)
        again = same or (repeats and result is Result.FAILED)
        run.failures = run.failures + 1 if again else 1
        run.failed_with, run.repeats = text, 0
        return
    output = (text, msgspec.json.encode(call.media))
    run.failures, run.failed_with = 0, None
    run.repeats = 0 if result is Result.WAITS else run.repeats + 1 if repeats and output == run.output else 1
    run.output = output


def _failure(call: Call, *, helped: bool) -> str | None:
    """The output, if it is a message of failure and nothing else. An exit code is none: the command was run, and quiet ones
    that find nothing all end with the same."""
    if not call.answered or call.media:
        return None
    output = call.output()
    if len(output) > _LONGEST_MESSAGE:
        return None
    failed = result_of(output) in (Result.LOOKS_FAILED, Result.UNUSABLE) if helped else _UNUSABLE.match(output) is not None
    return _without_arguments(output, call.arguments) if failed else None


def _without_arguments(output: str, arguments: str) -> str:
    """The message but for what the call itself has said, such as the name of a file."""
    said = (value for value in msgspec.json.decode(arguments).values() if isinstance(value, str))
    for value in sorted((value for value in said if len(value) > 1), key=len, reverse=True):
        output = output.replace(value, "…")
    return output


def result_of(output: str) -> Result:
    is_long = len(output) > _LONGEST_MESSAGE
    shown = f"{output[:_HEAD]}\n{output[-_TAIL:]}" if is_long else output
    if (code := _EXIT.search(shown)) is not None:
        return Result.SUCCEEDED if code[1] == "0" else Result.FAILED
    result = next((sign.result for sign in SIGNS if sign.pattern.search(shown)), Result.SUCCEEDED)
    return Result.SUCCEEDED if is_long and result in _FAILURES else result


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
    if not left:
        return Offer([], only=(), withheld=reasons)
    # An engine that makes sure of a call chooses among the tools that it sees.
    by_engine = offer.must_call and not offer.constrained
    tools = [tool for tool in offer.tools if tool.function.name in left] if by_engine else offer.tools
    return structs.replace(offer, tools=tools, only=left, withheld=reasons)


def withheld_to_notices(offer: Offer) -> Iterable[str]:
    return (WITHHELD.format(name=name, reason=reason) for name, reason in offer.withheld.items())
