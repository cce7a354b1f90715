"""Asking for one response: which engine, in which dialect, and again in another way where a refusal teaches one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon.core.faults import Refusal
from antiphon.core.lessons import lesson_of
from antiphon.core.repairs import refusal_to_conversion
from antiphon.core.request import Conversion
from antiphon.core.truncation import share_to_drop
from antiphon.engines.upstream import Engine, Reply
from antiphon.errors import ApiError, ContextLengthExceeded, EngineUnavailable
from antiphon.logs import log

# For an engine, if one is there, by what was learned of it, and without a share of the history.
Convert = Callable[[Engine | None, Mapping[str, Any], float], Conversion]
# What an engine has shown that gave no call although it had to.
NOT_ENFORCED = {"enforces_required": False, "enforces_named": False}


class Asking:
    """The engine that is asked, and the request in its dialect."""

    def __init__(self, engines: Sequence[Engine], convert: Convert, *, truncates: bool) -> None:
        self.engine = engines[0]
        self._others = engines[1:]
        self._convert = convert
        self._truncates = truncates
        # What refusals have taught, for this request alone.
        self._facts: dict[str, Any] = {}
        # The share of a history too long that was left out.
        self.dropped = 0.0
        self.conversion = convert(self.engine, self._facts, self.dropped)

    async def open(self) -> Reply:
        """The first engine that takes the request; another is tried only where one is not there."""
        for other in self._others:
            try:
                return await self.ask()
            except EngineUnavailable:
                self._facts.clear()
                self.engine = other
                self._convert_anew()
        return await self.ask()

    async def ask(self) -> Reply:
        """Asks the engine, and again in another way where its refusal teaches one."""
        while True:
            try:
                return await self.engine.open_chat(self.conversion.chat)
            except ContextLengthExceeded as overflow:
                if not self._truncates:
                    raise
                self._truncate(overflow)
            except ApiError as error:
                if not self.learn_from(error):
                    raise

    def learn_from(self, error: ApiError) -> bool:
        """Converts the request anew by what the error teaches of the engine; false if that is nothing."""
        lesson = lesson_of(error, self.conversion.chat, self.conversion.dialect)
        if lesson is None:
            return False
        model = self.conversion.chat.model
        log("learned", engine=self.engine.root, model=model, facts=dict(lesson.facts), lasting=lesson.lasting)
        if lesson.lasting:
            self.engine.learn(model, lesson.facts)
        self._facts |= lesson.facts
        self._convert_anew()
        return True

    def show(self, refusal: Refusal) -> None:
        """From now on the request shows the model what is wrong with its answer."""
        if refusal.call is None and self.conversion.demands.must_call:
            self.engine.learn(self.conversion.chat.model, NOT_ENFORCED)
        self.conversion = refusal_to_conversion(self.conversion, refusal)

    def _truncate(self, overflow: ContextLengthExceeded) -> None:
        """Leaves out as many of the oldest turns as the engine's words ask for. Raises once only the last is left."""
        if self.dropped >= 1:
            raise overflow
        self.dropped = share_to_drop(overflow.message, self.dropped)
        self._convert_anew()

    def _convert_anew(self) -> None:
        self.conversion = self._convert(self.engine, self._facts, self.dropped)
