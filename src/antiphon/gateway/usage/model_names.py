"""Names that clients and engines choose, by which something is counted: their number has a limit."""

from collections.abc import Callable

OTHER = "other"
# The most different values, and characters of one of them.
MOST_VALUES = 50
LONGEST = 100
# The most models that no engine lists and no setting names.
MOST_UNLISTED_MODELS = 10


class LabelValues:
    """The first ones that come are counted by themselves, all others together."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def find(self, value: str) -> str:
        """Of a value that is not counted by itself if it is not yet."""
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
    """A client may invent names for an engine that takes any. So names that are not listed have few places of their own, which
    only answers give them; they take none away from the others."""

    def __init__(
        self, is_listed: Callable[[str], bool], most: int = MOST_VALUES, most_unlisted: int = MOST_UNLISTED_MODELS
    ) -> None:
        """`is_listed`: an engine lists the model, or the settings name it."""
        self._is_listed = is_listed
        self._listed, self._unlisted = LabelValues(most), LabelValues(most_unlisted)
        # Those that have a place of their own, which they keep.
        self._own: dict[str, str] = {}

    def of(self, model: str, *, answered: bool = False) -> str:
        """`answered`: an engine has completed an answer of this model."""
        if (known := self._own.get(model)) is not None:
            return known
        if self._is_listed(model):
            value = self._listed.of(model)
        else:
            value = self._unlisted.of(model) if answered else self._unlisted.find(model)
        if value != OTHER:
            self._own[model] = value
        return value
