"""What the headers of an engine's answer say about another attempt: `Retry-After`, `retry-after-ms` and `x-should-retry`."""

import math
from calendar import timegm
from collections.abc import Mapping
from email.utils import parsedate_tz
from typing import NamedTuple

# In seconds. No client should sleep longer on the word of an engine, whose clock may be wrong; asking once an hour is cheap.
LONGEST_RETRY_AFTER = 3600.0
YES_OR_NO: Mapping[str, bool] = {"true": True, "false": False}


class RetryAdvice(NamedTuple):
    """What an engine says about another attempt."""

    # Seconds to wait before another attempt, from 0 to LONGEST_RETRY_AFTER. None: the engine does not say, or wants none.
    after: float | None = None
    # Whether another attempt is worth making. None: the engine does not say.
    wanted: bool | None = None


NO_ADVICE = RetryAdvice()


def headers_to_advice(headers: Mapping[str, str], now: float) -> RetryAdvice:
    """Reads the headers of an answer, whose names are looked up in any case. `now`: in seconds since 1970."""
    after = _milliseconds(headers.get("retry-after-ms", ""))
    if after is None and (given := headers.get("Retry-After")):
        after = _seconds(given)
        if after is None:
            after = _until(given, headers.get("Date", ""), now)
    if after is not None:
        after = min(max(after, 0.0), LONGEST_RETRY_AFTER)
    wanted = YES_OR_NO.get(headers.get("x-should-retry", "").strip().lower())
    return RetryAdvice(None if wanted is False else after, wanted)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return None if math.isnan(seconds) else seconds


def _milliseconds(text: str) -> float | None:
    milliseconds = _seconds(text)
    return None if milliseconds is None else milliseconds / 1000


def _until(text: str, date: str, now: float) -> float | None:
    """A date is compared with the engine's own clock, if it shows it."""
    then, here = _timestamp(text), _timestamp(date)
    return None if then is None else then - (now if here is None else here)


def _timestamp(text: str) -> float | None:
    """The date in seconds since 1970. One without a zone is in UTC, as all dates of HTTP are."""
    try:
        date = parsedate_tz(text)
        return None if date is None else timegm((*date[:6], 0, 1, 0)) - (date[9] or 0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
