"""The checks of one response, before its engine is asked and while that answers."""

import asyncio

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.exchange.exchange import Exchange
from antiphon.gateway.limits.admission import Seat
from antiphon.gateway.runs.equipment import Equipment
from antiphon.gateway.runs.outbox import Outbox


class AnswerChecks:
    """An answer is checked while the engine sends more of it, which waits in the exchange."""

    __slots__ = ("_equipment", "_exchange", "_outbox", "_seat", "running")

    def __init__(self, exchange: Exchange, outbox: Outbox, equipment: Equipment, seat: Seat) -> None:
        self._exchange = exchange
        self._outbox = outbox
        self._equipment = equipment
        self._seat = seat
        # An answer is checked. The outcome is reported to the exchange at any time.
        self.running: asyncio.Task[None] | None = None

    async def outcome_of(self, work: CheckWork) -> CheckOutcome:
        return await self._equipment.run_check(work, self._seat.owner, patient=self._seat.patient)

    def start(self, read: asyncio.Future[None]) -> None:
        """`read`: gets its result when the exchange wants no more of the engine's body."""
        self.running = self.running or asyncio.create_task(self._run(read))

    async def wait(self) -> None:
        """Until none runs. What went wrong is raised by others."""
        if self.running is not None:
            await asyncio.wait({self.running})

    def cancel(self) -> None:
        if self.running is not None:
            self.running.cancel()

    async def _run(self, read: asyncio.Future[None]) -> None:
        exchange, outbox = self._exchange, self._outbox
        try:
            while (work := exchange.check) is not None:
                outcome = await self.outcome_of(work)
                outbox.add(exchange.checked(outcome))
                outbox.flush()
            if not exchange.reading and not read.done():
                read.set_result(None)
        except Exception as bug:
            if read.done():
                raise
            read.set_exception(bug)
        finally:
            self.running = None
