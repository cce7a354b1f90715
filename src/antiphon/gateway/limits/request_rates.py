"""How many requests an owner may send in a minute.

As many as a minute allows may come at once; after that, one becomes possible each time its share of the minute has passed. What
is kept of an owner is one number: the time at which nothing of its minute is used up any more.
"""

import math
from typing import NamedTuple

from antiphon.errors import RateLimited, counted

MINUTE = 60.0
# Times are sums of fractions. What is smaller than this is an error of rounding, in seconds.
ROUNDING = 1e-6


class RateState(NamedTuple):
    limit: int
    # How many requests may be sent now.
    remaining: int
    # Seconds until all of them may be.
    reset: float


class RequestRates:
    def __init__(self, per_minute: int | None) -> None:
        """None: any number."""
        self.per_minute = per_minute
        self._unused_at: dict[str, float] = {}

    def count(self, owner: str, now: float) -> None:
        """Raises RateLimited. A request that is refused by this is not counted: what was said about the time stays true."""
        if self.per_minute is None:
            return
        share = MINUTE / self.per_minute
        unused_at = max(now, self._unused_at.get(owner, now)) + share
        wait = unused_at - now - MINUTE
        if wait > ROUNDING:
            seconds = math.ceil(wait - ROUNDING)
            most, wait_for = counted(self.per_minute, "request"), counted(seconds, "second")
            raise RateLimited(f"More than {most} a minute: try again in {wait_for}.", retry_after=seconds)
        self._unused_at[owner] = unused_at

    def rename(self, earlier: str, owner: str, now: float) -> None:
        """What the earlier owner has used of its minute counts for this one, together with its own: at most the whole of it."""
        used = [max(0.0, self._unused_at.pop(each, now) - now) for each in (earlier, owner)]
        if any(used):
            self._unused_at[owner] = now + min(MINUTE, sum(used))

    def state(self, owner: str, now: float) -> RateState | None:
        """None: there is no limit."""
        if self.per_minute is None:
            return None
        used = max(0.0, self._unused_at.get(owner, now) - now)
        remaining = math.floor((MINUTE - used) * self.per_minute / MINUTE + ROUNDING)
        return RateState(self.per_minute, max(0, remaining), used)
