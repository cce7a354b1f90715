"""The cache of chains: the least recently used are dropped, and none is kept that may still change."""

from support.stores import BEGINNING, record

from antiphon.store.records import Link
from antiphon.store.sql.recent_chains import MOST_LINKS, OVERHEAD, Chain, RecentChains


def link(id: str, *, parent: str | None = None, status: str = "completed", size: int = 0, expires_at: int = BEGINNING) -> Link:
    return Link(id, status, b"x" * size, b"", parent, expires_at)


def chain(*links: Link) -> Chain:
    return Chain(list(links), 0)


def ids(recent: RecentChains, id: str, now: float = BEGINNING - 1, owner: str = "ada") -> list[str] | None:
    found = recent.find(owner, id, now)
    return [each.id for each in found.links] if found is not None else None


def test_the_least_recently_used_chains_are_dropped() -> None:
    recent = RecentChains(most_bytes=2 * (1000 + OVERHEAD))
    for id in ("r0", "r1"):
        recent.add("ada", id, chain(link(id, size=1000)))
    assert ids(recent, "r0") == ["r0"]
    recent.add("ada", "r2", chain(link("r2", size=1000)))
    assert [id for id in ("r0", "r1", "r2") if ids(recent, id)] == ["r0", "r2"]
    assert ids(recent, "r0", owner="bob") is None


def test_an_extended_chain_replaces_the_shorter_one() -> None:
    recent = RecentChains()
    recent.add("ada", "r0", chain(link("r0")))
    recent.extend(record("r1", parent="r0"))
    assert ids(recent, "r0") is None
    assert ids(recent, "r1") == ["r0", "r1"]


def test_no_chain_is_kept_that_may_still_change() -> None:
    recent = RecentChains()
    recent.add("ada", "r0", chain(link("r0", status="in_progress")))
    recent.add("ada", "r1", chain(link("r1", parent="lost")))
    recent.add("ada", "r2", chain())
    assert [ids(recent, id) for id in ("r0", "r1", "r2")] == [None, None, None]
    recent.add("ada", "r3", chain(link("r3")))
    recent.extend(record("r4", parent="r3", status="in_progress"))
    assert (ids(recent, "r3"), ids(recent, "r4")) == (None, None)


def test_a_chain_expires_with_the_first_of_its_responses() -> None:
    recent = RecentChains()
    recent.add("ada", "r1", chain(link("r0", expires_at=10), link("r1", parent="r0", expires_at=20)))
    assert ids(recent, "r1", now=9) == ["r0", "r1"]
    assert ids(recent, "r1", now=10) is None
    assert ids(recent, "r1", now=9) is None, "it was dropped"


def test_chains_with_a_response_are_forgotten_for_its_owner_only() -> None:
    recent = RecentChains()
    for owner in ("ada", "bob"):
        recent.add(owner, "r1", chain(link("r0"), link("r1", parent="r0")))
    recent.forget("ada", {"r0", "other"})
    assert (ids(recent, "r1"), ids(recent, "r1", owner="bob")) == (None, ["r0", "r1"])


def test_a_chain_is_not_extended_beyond_what_is_read_of_one() -> None:
    recent = RecentChains()
    recent.add("ada", "r0", chain(*[link("r0")] * MOST_LINKS))
    recent.extend(record("r1", parent="r0"))
    assert ids(recent, "r1") is None
