"""One worker process, as the supervisor sees it."""

import asyncio
import socket
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from itertools import chain

from antiphon.app.processes.channel import Channel
from antiphon.app.processes.messages import Counts, Failed, Ready, Start, ToSupervisor, ToWorker
from antiphon.child_processes.child import Child, python_command

MODULE = "antiphon.app.processes.worker"

Handle = Callable[["Supervised", ToSupervisor], None]


class Supervised(Child):
    def __init__(self, process: Process, channel: Channel[ToSupervisor], start: Start, handle: Handle) -> None:
        super().__init__(process)
        self.slot = start.slot
        self.path = start.path
        self.is_ready = False
        # It accepts no more connections.
        self.is_leaving = False
        self.failure: str | None = None
        # What it said of its counts last.
        self.counts = b""
        self._channel = channel
        self._handle = handle
        self.follow(channel.receive_all(self._receive))

    @classmethod
    async def spawn(cls, start: Start, handle: Handle) -> "Supervised":
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *python_command(MODULE, str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *start.listening, *chain.from_iterable(start.others.values())),
            )
        channel: Channel[ToSupervisor] = await Channel.over(ours, ToSupervisor)
        channel.send(start)
        return cls(process, channel, start, handle)

    def send(self, message: ToWorker) -> None:
        self._channel.send(message)

    async def end(self) -> str:
        """Waits for its end, and returns how it came: if it said why, in its words."""
        how = await super().end()
        return self.failure or how

    def _receive(self, message: ToSupervisor) -> Awaitable[None] | None:
        match message:
            case Ready():
                self.is_ready = True
                self.mark_ready()
            case Failed(reason=reason):
                self.failure = reason
            case Counts(text=text):
                self.is_leaving, self.counts = True, text
        self._handle(self, message)
        return None
