"""Who may begin a response now, who waits, and who is refused: the limits of keys and of engines.

Limits are those of this gateway, over all of its worker processes (`app/processes/shared_admission.py`): several gateways on
one store count for themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from antiphon.errors import RateLimited
from antiphon.gateway.limits.engine_limits import EngineLimits, EngineSeat
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.owner_limits import OwnerLimits
from antiphon.gateway.limits.places import NO_LIMITS, AdmissionLimits, Clock, Place, whole_seconds
from antiphon.gateway.limits.threads import THREADS

MANY_LARGE = "Too many large requests are waiting to be read. Try again in about {wait} s."
# How many large requests may wait to be read or converted. Owners take turns, so nobody waits for all of another's.
MOST_LARGE = 200


class Admission:
    """`owners` and `engines`: the two sides of it."""

    def __init__(self, limits: AdmissionLimits = NO_LIMITS, now: Clock | None = None) -> None:
        """`now`: the clock by which all times are measured. None: that of the event loop."""
        self.now: Clock = now or asyncio.get_running_loop().time
        self.owners = OwnerLimits(limits, self.now)
        self.engines = EngineLimits(limits, self.now)
        self._large: FairQueue[Place] = FairQueue(THREADS, MOST_LARGE)

    def change(self, limits: AdmissionLimits) -> None:
        """From now on. What runs and waits goes on."""
        self.engines.change(limits)
        self.owners.change(limits)

    def rename(self, names: Mapping[str, str]) -> None:
        """By each earlier owner its name."""
        self.owners.rename(names)

    @asynccontextmanager
    async def entered(self, owner: str) -> AsyncIterator[EngineSeat]:
        """Counts a request, and gives it a place while it is answered."""
        if (counting := self.owners.count(owner)) is not None:
            await counting
        entering = self.owners.enter(owner)
        place = entering if isinstance(entering, Place) else await entering
        seat = self.engines.seat(owner)
        try:
            yield seat
        finally:
            seat.leave()
            place.leave()

    @asynccontextmanager
    async def reading(self, owner: str, *, patient: bool = False) -> AsyncIterator[None]:
        """A place for work on a large request. Raises RateLimited: too many wait for one. Not so if it is patient."""
        place = Place(self._large, owner, self.now, patient=patient)
        try:
            await place.take()
        except QueueFull as full:
            wait = whole_seconds(full.seconds)
            raise RateLimited(MANY_LARGE.format(wait=wait), retry_after=wait) from None
        try:
            yield
        finally:
            place.leave()
