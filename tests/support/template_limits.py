"""What the battery cannot have of llama.cpp: each limit names the code of llama.cpp that sets it."""

from dataclasses import dataclass

import pytest

from support.template_battery import (
    Cell,
    Client,
)


@dataclass(frozen=True, slots=True)
class Limit:
    # Words of the failure.
    words: str
    # Where in llama.cpp's sources.
    code: str


LIMITS: dict[tuple[str, Cell], Limit] = {}


async def expect(template: str, cell: Cell, client: Client) -> None:
    """The cell passes, or fails exactly as its limit says."""
    limit = LIMITS.get((template, cell))
    if limit is None:
        await cell(client)
        return
    with pytest.raises(AssertionError, match=limit.words):
        await cell(client)
