"""The rendered prompt has every thought, text, argument and output of a history that the template can show, in order."""

import itertools
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from support.battery_templates import Subject
from support.gateway import GatewayUnderTest
from support.template_battery import TOOLS, assistant, output, thought, user

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.wire.responses import CreateResponse

Body = dict[str, Any]


def call_id(mark: str) -> str:
    """Templates may show the id, too: the mark is not in it."""
    return f"call_{int(mark[4:7]):032x}"


@dataclass(frozen=True)
class Turn:
    """The marks of a turn, one in each text of it. `outputs` are as many as `arguments`, or fewer."""

    said: str | None = None
    thought: str | None = None
    text: str | None = None
    arguments: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def items(self) -> Iterator[Body]:
        if self.said is not None:
            yield user(f"So {self.said} it is.")
        if self.thought is not None:
            yield thought(f"Hmm, {self.thought}, hmm.")
        if self.text is not None:
            yield assistant(f"I say {self.text} to that.")
        for mark in self.arguments:
            arguments = msgspec.json.encode({"bed": mark}).decode()
            yield {"type": "function_call", "call_id": call_id(mark), "name": "water_bed", "arguments": arguments}
        for mark, result in zip(self.arguments, self.outputs, strict=False):
            yield output(call_id(mark), f"It was {result} there.")


@dataclass(frozen=True)
class History:
    turns: tuple[Turn, ...]
    # The mark of the instructions.
    instructions: str | None
    has_tools: bool
    last_user: int = field(init=False)

    def __post_init__(self) -> None:
        users = [at for at, turn in enumerate(self.turns) if turn.said is not None]
        object.__setattr__(self, "last_user", max(users, default=-1))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Any sequence of turns that ends with what the model has to answer: the user, or the results of calls."""
    numbers = itertools.count()

    def mark() -> str:
        return f"zeph{next(numbers):03}quill"

    instructions = mark() if draw(st.booleans()) else None
    turns: list[Turn] = []
    for _ in range(draw(st.integers(1, 6))):
        asks_again = bool(turns) and bool(turns[-1].outputs)
        # Two turns of the assistant in a row are one, unless there is a result between them.
        may_speak = not turns or turns[-1].said is not None or asks_again
        if not may_speak or draw(st.booleans()):
            turns.append(Turn(said=mark()))
            continue
        thinks, speaks = draw(st.booleans()), draw(st.booleans())
        calls = draw(st.integers(0 if speaks else 1, 3))
        answered = draw(st.integers(0, calls))
        turns.append(
            Turn(
                thought=mark() if thinks else None,
                text=mark() if speaks else None,
                arguments=tuple(mark() for _ in range(calls)),
                outputs=tuple(mark() for _ in range(answered)),
            )
        )
    if turns[-1].said is None and len(turns[-1].outputs) < max(1, len(turns[-1].arguments)):
        turns.append(Turn(said=mark()))
    return History(tuple(turns), instructions, has_tools=draw(st.booleans()))


def rendered(history: History, dialect: Dialect, url: str) -> str:
    items = [item for turn in history.turns for item in turn.items()]
    words = f"Mind {history.instructions} always." if history.instructions is not None else None
    request = msgspec.convert(
        {"model": "tiny", "input": items, "instructions": words, "tools": TOOLS if history.has_tools else []}, CreateResponse
    )
    chat = msgspec.to_builtins(request_to_chat(ChatInputs(request, items, dialect, "tiny")).chat)
    body = {name: chat[name] for name in ("messages", "tools", "tool_choice") if name in chat}
    asked = urllib.request.Request(
        url + "/apply-template", msgspec.json.encode(body), headers={"Content-Type": "application/json", "Connection": "close"}
    )
    with urllib.request.urlopen(asked) as answer:
        prompt: str = msgspec.json.decode(answer.read())["prompt"]
    return prompt


def check_order(marks: list[str], prompt: str) -> None:
    for mark in marks:
        assert prompt.count(mark) == 1, f"{mark} is {prompt.count(mark)} times in the prompt:\n{prompt}"
    places = [prompt.index(mark) for mark in marks]
    assert places == sorted(places), f"{marks} are in another order in the prompt:\n{prompt}"


def check_turn(turn: Turn, thoughts: list[str], before: list[str], prompt: str) -> list[str]:
    """All of the turn comes after what was `before` it. Calls that were made together may each have its result directly after
    it, and the thought may be shown beside the text or beside the calls."""
    texts = [mark for mark in (turn.said, turn.text) if mark is not None]
    for first in before:
        for marks in (thoughts, texts, turn.arguments, turn.outputs):
            check_order([first, *marks], prompt)
    check_order([*texts, *turn.arguments], prompt)
    check_order([*thoughts, *turn.arguments], prompt)
    for argument, result in zip(turn.arguments, turn.outputs, strict=False):
        check_order([argument, result], prompt)
    return [*thoughts, *texts, *turn.arguments, *turn.outputs]


def shown_thought(history: History, at: int, subject: Subject) -> list[str]:
    mark = history.turns[at].thought
    match subject.template.thoughts:
        case "all":
            is_shown = True
        case "of the tool loop":
            is_shown = at > history.last_user
        case "none":
            is_shown = False
    return [mark] if mark is not None and is_shown else []


def test_the_rendered_prompt_has_all_that_the_template_can_show(subject: Subject, probed: GatewayUnderTest) -> None:
    (engine,) = probed.gateway.pool.engines
    dialect = engine.knowledge.dialect_for("tiny")

    @settings(max_examples=30, derandomize=True, database=None)
    @given(histories())
    def check(history: History) -> None:
        prompt = rendered(history, dialect, subject.url)
        before = [history.instructions] if history.instructions is not None else []
        for at, turn in enumerate(history.turns):
            before = check_turn(turn, shown_thought(history, at, subject), before, prompt)

    check()
