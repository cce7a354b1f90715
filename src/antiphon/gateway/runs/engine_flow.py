"""Whether the engine may send: not while its client has to read, and not while a thread has to. Each of them pauses it."""

from antiphon.engines.upstream import Reply


class EngineFlow:
    """Every `pause()` is followed by one `resume()`. They count for whichever answer is being read."""

    __slots__ = ("_pauses", "_reply")

    def __init__(self) -> None:
        self._reply: Reply | None = None
        self._pauses = 0

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    def begin(self, reply: Reply) -> None:
        """This answer is read from now on."""
        self._reply = reply
        if self._pauses:
            reply.pause()

    def end(self) -> None:
        """The rest of the answer does not go to the client, so nobody has to wait for it."""
        reply, self._reply = self._reply, None
        if reply is not None and self._pauses:
            reply.resume()

    def pause(self) -> None:
        self._pauses += 1
        if self._reply is not None:
            self._reply.pause()

    def resume(self) -> None:
        self._pauses -= 1
        if self._reply is not None and not self._pauses:
            self._reply.resume()
