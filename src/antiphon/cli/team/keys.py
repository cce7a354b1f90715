"""`antiphon key`: keys of clients in the store."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from antiphon.cli.ps import columns
from antiphon.errors import UNREADABLE, StoreUnavailable, counted
from antiphon.gateway.state.record_format import decode_budget
from antiphon.gateway.usage.budgets import END_OF_TIME, MEASURES, Budget, Known, Measure, Months, shares
from antiphon.gateway.usage.prices import ANY, configured_prices
from antiphon.ids import ADMIN, hash_of_key
from antiphon.installation import as_typed
from antiphon.settings.errors import SettingsError
from antiphon.settings.keys import check_name, needs_key, new_key
from antiphon.settings.settings import Settings, data_directory
from antiphon.store import CannotOpen, default_url, open_store
from antiphon.store.account_records import DAY, KeyState, StoredKey, UsageSum
from antiphon.store.accounts.store import AccountStore

T = TypeVar("T")

STORED = """The key of {name}, which is shown only now:

{key}

Its hash is in the store. It works at once, in every gateway that uses this store."""
USE = """{name} gives it to clients as their API key. The commands of Antiphon (`antiphon codex`, `claude`, `chat`, `connect`)
read it from ANTIPHON_API_KEY."""
FIRST = """It is the first key. From now on these gateways refuse every client that sends none, also on this machine: set
ANTIPHON_API_KEY for the commands of Antiphon, and sign in on the page of the gateway."""
NOT_THE_ONLY_ONE = """{name} has {others}, which {verb} as before. `antiphon key rotate {name}` makes a key in place of
all others."""
ROTATED = "{others} of {name} {verb} {when}."
IN_MEMORY = "The store is memory:, which is gone with the gateway. Use another store, or `antiphon key new NAME --file`"
NO_KEY = "There is no key of {name} in the store that could be ended."
NO_KEY_YET = " No key has this name yet: `antiphon key new {name}` makes one."
IN_SETTINGS = "{name} also has keys in the settings, which only the file can end."
HEAD = ("name", "key", "made", "state", "budget", "used")
# In place of a budget that cannot be read.
NEWER = "(of a newer version)"
HINT = 4
# Of a key in the settings, of which only the name is said.
OF_SETTINGS = ("(settings)", "", "valid")


# ---- in the store: each raises SettingsError, CannotOpen or StoreUnavailable -------------------------------------------


def store_new(settings: Settings, name: str) -> str:
    check_name(name, "key new")
    key = new_key()

    async def add(accounts: AccountStore) -> Sequence[StoredKey]:
        """The keys that were there before."""
        before = (await accounts.keys()).keys
        await accounts.add_key(_stored(name, key))
        return before

    before = in_store(settings, add)
    is_first = not before and not needs_key(settings)
    now = time.time()
    valid = [each for each in before if each.name == name and (each.ends_at is None or each.ends_at > now)]
    others, verb = counted(len(valid), "other key"), "works" if len(valid) == 1 else "work"
    paragraphs = [
        STORED.format(name=name, key=key),
        as_typed(USE.format(name=name)),
        *([as_typed(NOT_THE_ONLY_ONE.format(name=name, others=others, verb=verb))] if valid else []),
        *([FIRST] if is_first else []),
    ]
    return "\n\n".join(paragraphs)


def rotate(settings: Settings, name: str, grace: float) -> str:
    check_name(name, "key rotate")
    key, at = new_key(), int(time.time() + grace)
    ended = in_store(settings, lambda accounts: accounts.rotate_key(_stored(name, key), at))
    when = f"in {counted(int(grace), 'second')}" if grace else "now"
    others, verb = counted(ended, "other key"), "ends" if ended == 1 else "end"
    return "\n\n".join([STORED.format(name=name, key=key), ROTATED.format(others=others, name=name, verb=verb, when=when)])


def revoke(settings: Settings, name: str, hint: str | None) -> str:
    """`hint`: the last characters of one key; None: all of them."""
    check_name(name, "key revoke")

    async def end(accounts: AccountStore) -> int:
        if hint is None:
            return await accounts.end_keys(name, int(time.time()))
        found = [key for key in (await accounts.keys()).keys if key.name == name and key.hint == hint]
        return sum([await accounts.end_keys(name, int(time.time()), key.hash) for key in found])

    if not (ended := in_store(settings, end)):
        raise SettingsError(NO_KEY.format(name=name) + (f" {IN_SETTINGS.format(name=name)}" if name in settings.keys else ""))
    said = [f"{counted(ended, 'key')} of {name} {'is' if ended == 1 else 'are'} refused from now on. What was stored stays."]
    return " ".join([*said, *([IN_SETTINGS.format(name=name)] if name in settings.keys else [])])


def limit(settings: Settings, name: str, budget: Budget | None) -> str:
    """None: it has no budget of its own any more."""
    check_name(name, "key limit")
    limits = None if budget is None else msgspec.json.encode(budget)

    async def set_limits(accounts: AccountStore) -> KeyState:
        await accounts.limit_key(name, limits)
        return await accounts.keys()

    state = in_store(settings, set_limits)
    has_key = name in settings.keys or name == ADMIN or any(key.name == name for key in state.keys)
    said = f"{name} has no budget of its own." if budget is None else f"{name} may use {budget_to_words(budget)}."
    wins = f" But the settings have a budget of {name}, which wins." if name in settings.usage.budgets else ""
    return said + ("" if has_key or budget is None else as_typed(NO_KEY_YET.format(name=name))) + wins


def list_keys(settings: Settings, *, as_json: bool) -> str:
    now = time.time()
    times = Months.of(now)

    async def read(accounts: AccountStore) -> tuple[KeyState, list[UsageSum]]:
        return await accounts.keys(), await accounts.usage(times.month, END_OF_TIME, DAY)

    state, sums = in_store(settings, read)
    used: defaultdict[str, Known] = defaultdict(lambda: Known(now, times))
    costs = configured_prices(settings.usage.currency, settings.usage.prices)
    for begins, kind, counts in sums:
        used[kind.owner].add(begins, counts, costs.cost(kind.model, counts))
    rows = list(_rows(settings, state, used, now))
    if as_json:
        return msgspec.json.format(msgspec.json.encode({"keys": [dict(zip(HEAD, row, strict=True)) for row in rows]})).decode()
    return "\n".join(columns([HEAD, *rows])) if rows else as_typed("There are no keys. `antiphon key new NAME` makes one.")


def _rows(settings: Settings, state: KeyState, used: Mapping[str, Known], now: float) -> Iterator[tuple[str, ...]]:
    budgets: dict[str, Budget | None] = {name: _readable(limits) for name, limits in state.limits}
    budgets |= {name: Budget(**structs.asdict(each)) for name, each in settings.usage.budgets.items()}

    def of(name: str) -> tuple[str, str]:
        """The budget, and what of it is used."""
        if name not in budgets and ANY not in budgets:
            return "", ""
        budget = budgets.get(name, budgets.get(ANY))
        return (budget_to_words(budget), used_to_words(budget, used[name])) if budget is not None else (NEWER, "")

    for name in settings.keys:
        yield (name, *OF_SETTINGS, *of(name))
    for key in state.keys:
        yield (key.name, f"…{key.hint}", _day(key.created_at), _state(key, now), *of(key.name))


def _readable(limits: bytes) -> Budget | None:
    """None: a newer version has written it."""
    try:
        return decode_budget(limits)
    except UNREADABLE:
        return None


def _state(key: StoredKey, now: float) -> str:
    if key.ends_at is None:
        return "valid"
    return f"ended {_day(key.ends_at)}" if key.ends_at <= now else f"ends {_day(key.ends_at)}"


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def budget_to_words(budget: Budget) -> str:
    """2,000,000 tokens a day, 20 a month in costs (soft)"""
    limits = [(getattr(budget, each.limit), each) for each in MEASURES]
    words = [_limit_to_words(most, each) for most, each in limits if most is not None]
    return (", ".join(words) or "any number") + (" (soft)" if budget.soft else "")


def _limit_to_words(most: float, measure: Measure) -> str:
    if measure.spent == "cost":
        return f"{most:,g} a {measure.period} in costs"
    return f"{most:,} {measure.spent.removesuffix('s') if most == 1 else measure.spent} a {measure.period}"


def used_to_words(budget: Budget, known: Known) -> str:
    """53 (106 %), 2.00 (20 %): of each limit, in the order of `budget_to_words`"""
    return ", ".join(
        f"{each.used:,.{2 if each.measure.spent == 'cost' else 0}f} ({100 * each.share:,.0f} %)"
        for each in shares(budget, known)
    )


def _stored(name: str, key: str) -> StoredKey:
    return StoredKey(hash=hash_of_key(key.encode()), name=name, hint=key[-HINT:], created_at=int(time.time()))


def in_store(settings: Settings, work: Callable[[AccountStore], Awaitable[T]]) -> T:
    url = settings.store or default_url(data_directory(settings))
    if url.startswith("memory:"):
        raise SettingsError(IN_MEMORY)

    async def run() -> Any:
        async with open_store(url) as store:
            return await work(store.accounts)

    try:
        found: T = asyncio.run(run())
    except (CannotOpen, StoreUnavailable) as gone:
        raise SettingsError(str(gone)) from None
    return found
