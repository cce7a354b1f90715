"""Which model an engine loads, and how far it is, while it cannot be used."""

from typing import Literal

from msgspec import Struct

# The model is downloaded, if it is not here; it is read into memory; it is prepared, and asked what it can do.
Stage = Literal["downloading", "loading", "starting"]


class Loading(Struct, frozen=True):
    model: str
    stage: Stage = "loading"
    # Bytes; None: not known.
    done: int | None = None
    total: int | None = None
    # How often in a row the engine has died, and why it did so the last time. It is started again each time.
    failures: int = 0
    reason: str | None = None

    @property
    def percent(self) -> int | None:
        return 100 * self.done // self.total if self.done is not None and self.total else None

    def __str__(self) -> str:
        """As the rest of a sentence: `loading qwen3-4b: 45 %`."""
        percent = f": {self.percent} %" if self.percent is not None else ""
        died = f". It has died before: {self.reason.splitlines()[0]}" if self.reason else ""
        return f"{self.stage} {self.model}{percent}{died}"
