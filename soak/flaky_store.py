"""A store that fails now and then: before it does anything, or after it has done it, as a lost connection does."""

import inspect
from collections.abc import Callable
from random import Random
from typing import Any, cast

from antiphon.errors import StoreUnavailable
from antiphon.store.protocol import Store


class FlakyStore:
    """Every call of `store` fails with the probability `share`. In half of these cases it has been done all the same."""

    def __init__(self, store: Store, share: float, chance: Random) -> None:
        self._store = store
        self._share = share
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._store, name)
        return self._failing(member) if inspect.iscoroutinefunction(member) else member

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def failing(*arguments: Any, **options: Any) -> Any:
            fails, late = self._chance.random() < self._share, self._chance.random() < 0.5
            if fails and not late:
                raise StoreUnavailable
            result = await call(*arguments, **options)
            if fails:
                raise StoreUnavailable
            return result

        return failing


def flaky(store: Store, share: float, chance: Random) -> Store:
    return cast(Store, FlakyStore(store, share, chance)) if share else store
