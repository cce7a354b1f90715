"""Worked examples in front of a conversation: what a small model takes the next step by.

Told after each result to say when it is done, a small model says so after the first one. Shown once how a task goes on to its
end, it does the same: it reads, changes, checks, and then answers; and it answers in words where no tool helps. The examples
depend on nothing but the tools that are offered, so that all prompts of a conversation begin with the same messages.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, structs

from antiphon.core.checks.constraints import TEXT
from antiphon.core.hosted.rows import BY_KIND
from antiphon.core.prompt.turns import AssistantTurn, Call
from antiphon.core.toolbox.choice import Offer
from antiphon.core.toolbox.examples import AGENT, FUNCTIONS, SEARCHES, Example, Step
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.wire.chat import ChatFunction, ChatMessage

# Of a window smaller than this, in tokens, the examples would take too large a part.
LEAST_WINDOW = 4096


def fitting_examples(offer: Offer, box: Toolbox, window: int | None) -> Iterable[ChatMessage]:
    """Those that fit the tools; none where the engine is not constrained to a call or an answer in words."""
    if offer.say is None or (window is not None and window < LEAST_WINDOW):
        return ()
    return ExampleTurns(_examples(box), offer.say.name, listed=offer.most_calls > 1).messages()


def _examples(box: Toolbox) -> Sequence[Example]:
    if all(name in box.easy.functions for example in AGENT for step in example.steps for name, _, _ in step.calls):
        return AGENT
    if all(_is_search(identity.kind) for identity in box.offered.identities.values()):
        return _as_searched(SEARCHES, next(iter(box.offered.functions.values())).function)
    return FUNCTIONS


def _is_search(kind: str) -> bool:
    """Its results have numbers to cite them by."""
    return kind in BY_KIND and BY_KIND[kind].number is not None


def _as_searched(examples: Iterable[Example], search: ChatFunction) -> Sequence[Example]:
    """With calls of this function. What is searched for is what each call of it needs."""
    schema: Any = search.parameters
    (member,) = schema["required"]
    is_list = schema["properties"][member]["type"] == "array"

    def called(step: Step) -> Step:
        queries = ((query, result) for _, arguments, result in step.calls for query in arguments.values())
        return Step(tuple((search.name, {member: [query] if is_list else query}, result) for query, result in queries))

    return [structs.replace(example, steps=tuple(map(called, example.steps))) for example in examples]


class ExampleTurns(Struct, frozen=True):
    """As a part of the conversation. What is answered in words has the form that the engine constrains the answer to: of the
    history, the model takes the plain text of answers for one that it may not write. As a call of our own function it would
    have no result, which some engines want of every call."""

    shown: Sequence[Example]
    say: str
    listed: bool = False

    def messages(self) -> Iterable[ChatMessage]:
        for number, example in enumerate(self.shown, 1):
            yield ChatMessage("user", example.asks)
            for at, step in enumerate(example.steps):
                calls = [
                    Call(f"example_{number}_{at}_{place}", name, json.dumps(arguments), texts=[result], answered=True)
                    for place, (name, arguments, result) in enumerate(step.calls)
                ]
                yield from AssistantTurn(calls=calls).messages()
            said = {"name": self.say, "arguments": {TEXT: example.says}}
            yield ChatMessage("assistant", json.dumps([said] if self.listed else said))
