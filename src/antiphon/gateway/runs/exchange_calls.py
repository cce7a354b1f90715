"""The calls of an exchange. One that may take long is made in a thread: until it returns, nobody else may call the exchange."""

from collections.abc import Callable

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.exchange import Exchange
from antiphon.gateway.limits.threads import run_aside


class ExchangeCalls:
    __slots__ = ("_exchange", "in_thread")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        # The exchange is in use there.
        self.in_thread = False

    async def make(self, call: Callable[[], list[AnyEvent]], *, in_thread: bool) -> list[AnyEvent]:
        self.in_thread = in_thread
        try:
            return await run_aside(call, large=in_thread)
        finally:
            self.in_thread = False

    def join_pieces(self) -> None:
        if not self.in_thread:
            self._exchange.join_pieces()

    def heartbeat(self) -> list[AnyEvent]:
        """None while a thread uses the exchange."""
        return [] if self.in_thread else self._exchange.heartbeat()
