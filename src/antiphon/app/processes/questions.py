"""What a worker process asks the supervisor."""

import asyncio
from typing import Any

from antiphon.app.processes.channel import Channel
from antiphon.app.processes.messages import Answer, Ask, Note
from antiphon.errors import EngineUnavailable
from antiphon.gateway.runs.in_flight import SHUTTING_DOWN


class Questions:
    def __init__(self, channel: Channel[Any]) -> None:
        self._channel = channel
        self._number = 0
        self._closed = False
        self._open: dict[int, asyncio.Future[Any]] = {}

    def close(self) -> None:
        """The supervisor has ended, and so will this process: nobody waits any more."""
        self._closed = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(EngineUnavailable(SHUTTING_DOWN, retry_after=1))

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Raises EngineUnavailable if the supervisor has ended."""
        if self._closed:
            raise EngineUnavailable(SHUTTING_DOWN, retry_after=1)
        self._number += 1
        number = self._number
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        self._channel.send(Ask(number, name, arguments))
        try:
            return await answer
        finally:
            del self._open[number]

    def note(self, name: str, *arguments: Any) -> None:
        """Says something that needs no answer."""
        self._channel.send(Note(name, arguments))

    def answered(self, answer: Answer) -> None:
        # Nobody waits any more for the answer to a question that was given up.
        if (waiting := self._open.get(answer.number)) is not None and not waiting.done():
            waiting.set_result(answer.result)
