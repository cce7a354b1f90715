"""Ids: a prefix that names the type of the object, the time, and 128 random bits.

Ids sort in the order in which they were made. Some clients sort items by their ids, and databases store rows in their order.
"""

import os
import re
import time
from hashlib import blake2b

# The owner of what the admin key creates. No other key can have this name.
ADMIN = "admin"
HASH_BYTES = 16


def hash_of_key(key: bytes) -> str:
    """Fast on purpose: keys are random and long, so nobody finds one by trying, however fast the hash is.

    Where a key has no name, this is the owner of what it stores. It never changes: otherwise all of that would be lost.
    """
    return blake2b(key, digest_size=HASH_BYTES).hexdigest()


RANDOM_BYTES = 16
# The random parts of so many ids are drawn at once: a system call for each was 1 % of a small request.
DRAWN_AT_ONCE = 256

_SPLIT = re.compile(f".{{{2 * RANDOM_BYTES}}}").findall
_MADE = re.compile(f"[a-z]+_([0-9a-f]{{16}})[0-9a-f]{{{2 * RANDOM_BYTES}}}")

_last = 0
# Of the next ids. Threads draw them, too: to take one from a list is a single step.
_random: list[str] = []
# A process that was forked off would draw the same ones.
os.register_at_fork(after_in_child=_random.clear)


def new_id(prefix: str) -> str:
    """A new id: `resp_18a5…`."""
    global _last
    now = time.time_ns()
    _last = now if now > _last else _last + 1
    try:
        # As `random_hex` does, for all but one of many ids.
        digits = _random.pop()
    except IndexError:
        digits = random_hex()
    # To format it by `016x` takes twice as long.
    return f"{prefix}_{_last.to_bytes(8, 'big').hex()}{digits}"


def time_digits(id: str) -> str | None:
    """The time in an id that was made here, as hexadecimal digits that sort by it. None: of another id, such as a client's."""
    made = _MADE.fullmatch(id)
    return made[1] if made is not None else None


def random_hex() -> str:
    """128 random bits that nobody can guess, as 32 hexadecimal digits."""
    while True:
        try:
            return _random.pop()
        except IndexError:
            _random.extend(_draw())


def _draw() -> list[str]:
    return _SPLIT(os.urandom(RANDOM_BYTES * DRAWN_AT_ONCE).hex())
