"""How many notices a response shows, and how much of each: every event with the response object has them."""

from collections.abc import Iterable

from antiphon.quantities import counted

# An input of many items may give as many notices, and a notice may quote what the client sent.
MOST = 100
LONGEST = 1000
MORE = "and {more}"


def shortened(given: Iterable[str]) -> list[str]:
    """Each once. Those that are too many are counted, and what is too long is cut off."""
    notices = list(dict.fromkeys(given))
    shown = [each if len(each) <= LONGEST else f"{each[:LONGEST]}…" for each in notices[:MOST]]
    more = len(notices) - MOST
    return [*shown, MORE.format(more=counted(more, "more notice"))] if more > 0 else shown
