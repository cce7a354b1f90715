"""The values of labels. Each makes a series of its own, in the gateway and in Prometheus, so their number has a limit."""

import re

OTHER = "other"
NONE = "none"
# The label of all keys that have no name.
UNNAMED = "unnamed"
# The owner of what such a key stores: a hash of the key, which is shown to nobody.
_HASH = re.compile(r"[0-9a-f]{32}")
# The most values of one label, and characters of one of them.
MOST_VALUES = 50
LONGEST = 100


class LabelValues:
    """The first ones that come get a series each, all others share one."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def of(self, value: str) -> str:
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER
        # What cannot be encoded cannot be sent.
        return self._known.setdefault(value, value[:LONGEST].encode(errors="replace").decode())


def owner_to_label(owner: str) -> str:
    """The name of a key; never the key, and never its hash."""
    if not owner:
        return NONE
    return UNNAMED if _HASH.fullmatch(owner) else owner
