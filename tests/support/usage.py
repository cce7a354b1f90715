"""What a gateway under test has counted."""

from collections import defaultdict

from antiphon.store import Store
from antiphon.store.account_records import DAY, Counts
from support.gateway import GatewayUnderTest

LATE = 2**40


async def stored_usage(store: Store) -> dict[tuple[str, str, str], Counts]:
    """By owner, model and channel."""
    sums: dict[tuple[str, str, str], Counts] = defaultdict(Counts)
    for each in await store.accounts.usage(0, LATE, DAY):
        sums[each.kind] = sums[each.kind].plus(each.counts)
    return dict(sums)


async def used(gateway: GatewayUnderTest) -> dict[tuple[str, str, str], Counts]:
    """With what is not written yet."""
    await gateway.gateway.ledger.flush()
    return await stored_usage(gateway.gateway.store)
