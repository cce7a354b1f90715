"""Ids: a prefix that names the type of the object, the time, and 128 random bits.

Ids sort in the order in which they were made. Some clients sort items by their ids, and databases store rows in their order.
"""

import secrets
import time

_last = 0


def new_id(prefix: str) -> str:
    """A new id: `resp_18a5…`."""
    global _last
    _last = max(_last + 1, time.time_ns())
    return f"{prefix}_{_last:016x}{secrets.token_hex(16)}"
