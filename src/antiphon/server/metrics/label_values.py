"""The values of labels. Each makes a series of its own, in the gateway and in Prometheus, so their number has a limit."""

import re
from collections.abc import Callable

OTHER = "other"
NONE = "none"
# The label of all keys that have no name.
UNNAMED = "unnamed"
# The owner of what such a key stores: a hash of the key, which is shown to nobody.
_HASH = re.compile(r"[0-9a-f]{32}")
# The most values of one label, and characters of one of them.
MOST_VALUES = 50
LONGEST = 100
# The most models that no engine lists and no setting names.
MOST_UNLISTED_MODELS = 10


class LabelValues:
    """The first ones that come get a series each, all others share one."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def find(self, value: str) -> str:
        """Of a value that gets no series of its own if it has none yet."""
        return self._known.get(value, OTHER)

    def of(self, value: str) -> str:
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER
        # What cannot be encoded cannot be sent.
        return self._known.setdefault(value, value[:LONGEST].encode(errors="replace").decode())


class ModelValues:
    """A client may invent names for an engine that takes any. So names that are not listed have few labels of their own, which
    only answers give them; they take none away from the others."""

    def __init__(self, is_listed: Callable[[str], bool]) -> None:
        """`is_listed`: an engine lists the model, or the settings name it."""
        self._is_listed = is_listed
        self._listed, self._unlisted = LabelValues(), LabelValues(MOST_UNLISTED_MODELS)

    def of(self, model: str, *, answered: bool = False) -> str:
        """`answered`: an engine has completed an answer of this model."""
        if self._is_listed(model):
            return self._listed.of(model)
        return self._unlisted.of(model) if answered else self._unlisted.find(model)


def owner_to_label(owner: str) -> str:
    """The name of a key; never the key, and never its hash."""
    if not owner:
        return NONE
    return UNNAMED if _HASH.fullmatch(owner) else owner
