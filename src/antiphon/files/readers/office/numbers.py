"""Numbers as office programs store and show them; numbers of days → dates."""

import math
import re

DAYS_TO_1970 = 25_569
# Workbooks of old Macintosh computers begin four years later.
DAYS_TO_1904 = 1_462
# These programs believe that 1900 had a 29 February.
LEAP_DAY = 60
# 31 December 9999: they know no later day.
LAST_DAY = 2_958_465
SECONDS_A_DAY = 86_400
# What says nothing in a format: quoted texts, colours and conditions, characters as they are.
_PLAIN = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.|\*.')
_DATE = re.compile(r"[dmyhs]", re.IGNORECASE)
_GENERAL = "general"


def is_date_format(code: str) -> bool:
    """Whether numbers in this format are dates or times."""
    return code.lower() != _GENERAL and _DATE.search(_PLAIN.sub("", code).partition(";")[0]) is not None


def is_percent_format(code: str) -> bool:
    return "%" in _PLAIN.sub("", code)


def percent_to_text(number: float) -> str:
    return f"{number * 100:.15g}%"


def number_to_text(value: str) -> str:
    """With as many digits as such programs show. What is no number stays as it is."""
    try:
        return format(float(value), ".15g")
    except ValueError:
        return value


def serial_to_text(serial: float, *, is_1904: bool = False) -> str | None:
    """None: it is no date. Less than a day is a time."""
    if not 0 <= serial <= LAST_DAY:
        return None
    days, seconds = divmod(math.floor(serial * SECONDS_A_DAY + 0.5), SECONDS_A_DAY)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if is_1904:
        days += DAYS_TO_1904
    elif days == 0:
        return time
    elif days < LEAP_DAY:
        days += 1
    year, month, day = _civil(days - DAYS_TO_1970)
    date = f"{year:04}-{month:02}-{day:02}"
    return f"{date} {time}" if seconds else date


def _civil(days: int) -> tuple[int, int, int]:
    """The date, so many days after 1 January 1970. Years are counted from March, so that the leap day is their last."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + 400 * era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
