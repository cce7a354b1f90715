"""Ids of containers say in which worker process they are: a container lives in one process, and dies with it."""

from collections.abc import Callable

# Hexadecimal digits at the end of an id.
DIGITS = 2
PREFIX = "cntr"


def ids_in_slot(slot: int, new_id: Callable[[str], str]) -> Callable[[str], str]:
    """Makes ids as `new_id` does, and those of containers so that `slot_of` finds this slot."""

    def make(prefix: str) -> str:
        id = new_id(prefix)
        return f"{id[:-DIGITS]}{slot:0{DIGITS}x}" if prefix == PREFIX else id

    return make


def slot_of(id: str) -> int | None:
    """None: it is no such id."""
    try:
        return int(id[-DIGITS:], 16) if id.startswith(PREFIX) else None
    except ValueError:
        return None
