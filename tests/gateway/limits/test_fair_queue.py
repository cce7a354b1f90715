"""Never more than so many at once, owners in turn, and every place comes back."""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull

OWNERS = st.sampled_from(["ada", "bob", "eve"])


def filled(places: int, most_waiting: int) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue(places, most_waiting)
    for number in range(places):
        queue.enter(f"running {number}", "eve", 0)
    return queue


def served(queue: FairQueue[str], *running: str) -> Iterator[str]:
    """Who gets the place of each of these, and of those that got it before."""
    leaving = list(running)
    while leaving:
        begun = queue.leave(leaving.pop(0), 1)
        leaving += begun
        yield from begun


def test_without_a_limit_everybody_has_a_place() -> None:
    queue: FairQueue[int] = FairQueue(None, 0)
    for ticket in range(1000):
        queue.enter(ticket, "ada", 0)
    assert all(queue.runs(ticket) for ticket in range(1000))


def test_owners_take_turns_and_each_is_served_in_order() -> None:
    queue = filled(1, 100)
    for ticket in ("eve 1", "eve 2", "eve 3", "ada 1", "bob 1", "ada 2"):
        queue.enter(ticket, ticket.split()[0], 0)
    assert list(served(queue, "running 0")) == ["eve 1", "ada 1", "bob 1", "eve 2", "ada 2", "eve 3"]
    assert (queue.running, queue.waiting) == (0, 0)


def test_one_more_than_the_queue_takes_is_refused() -> None:
    queue = filled(1, 2)
    queue.enter("eve 1", "eve", 0)
    queue.enter("eve 2", "eve", 0)
    with pytest.raises(QueueFull):
        queue.enter("eve 3", "eve", 0)
    assert not queue.runs("eve 3")
    assert list(served(queue, "running 0")) == ["eve 1", "eve 2"]


def test_an_owner_that_fills_the_queue_gives_way_to_one_that_has_less_in_it() -> None:
    queue = filled(1, 3)
    for number in range(3):
        queue.enter(f"eve {number}", "eve", 0)
    assert queue.enter("ada", "ada", 0) == "eve 2"
    # Eve has two in it now, and Ada one: another of Ada's would only turn that around.
    with pytest.raises(QueueFull):
        queue.enter("ada 2", "ada", 0)
    assert queue.enter("bob", "bob", 0) == "eve 1"
    with pytest.raises(QueueFull):
        queue.enter("joe", "joe", 0)
    assert list(served(queue, "running 0")) == ["eve 0", "ada", "bob"]


def test_a_patient_one_is_never_refused_and_takes_no_room() -> None:
    queue = filled(1, 1)
    for number in range(5):
        queue.enter(f"patient {number}", "eve", 0, patient=True)
    queue.enter("eve", "eve", 0)
    assert queue.waiting == 1
    with pytest.raises(QueueFull):
        queue.enter("ada", "ada", 0)
    assert len(list(served(queue, "running 0"))) == 6


def test_those_that_return_come_first_in_their_order_and_take_no_room() -> None:
    queue = filled(1, 1)
    queue.enter("patient", "bob", 0, patient=True)
    queue.enter("new", "ada", 0)
    for ticket in ("back 1", "back 2", "gone", "back 3"):
        queue.enter(ticket, "eve", 0, returns=True)
    assert queue.waiting == 1
    assert queue.leave("gone", 0) == []
    assert list(served(queue, "running 0")) == ["back 1", "back 2", "back 3", "patient", "new"]
    assert (queue.running, queue.waiting) == (0, 0)


def test_the_estimate_counts_those_that_return() -> None:
    queue: FairQueue[str] = FairQueue(1, 0)
    queue.enter("first", "ada", 0)
    queue.leave("first", 5)
    queue.enter("second", "ada", 5)
    queue.enter("back", "bob", 5, returns=True)
    assert queue.seconds_to_wait(5) == 10


def test_who_returns_gets_no_more_places_than_its_owner_may_have() -> None:
    queue: FairQueue[str] = FairQueue(2, 10, own_places=1)
    queue.enter("eve", "eve", 0)
    queue.enter("back", "eve", 0, returns=True)
    queue.enter("ada", "ada", 0)
    assert (queue.runs("back"), queue.runs("ada")) == (False, True)
    queue.enter("bob", "bob", 0)
    assert queue.leave("ada", 1) == ["bob"]
    assert queue.leave("eve", 1) == ["back"]


def test_one_that_leaves_the_queue_is_not_served() -> None:
    queue = filled(1, 5)
    queue.enter("eve 1", "eve", 0)
    queue.enter("ada 1", "ada", 0)
    assert queue.leave("eve 1", 0) == []
    assert queue.leave("eve 1", 0) == []
    assert list(served(queue, "running 0")) == ["ada 1"]


def test_to_leave_twice_gives_one_place_back() -> None:
    queue = filled(2, 5)
    for number in range(3):
        queue.enter(number_to_ticket(number), "eve", 0)
    assert queue.leave("running 0", 1) == [number_to_ticket(0)]
    assert queue.leave("running 0", 1) == []
    assert queue.running == 2


def number_to_ticket(number: int) -> str:
    return f"ticket {number}"


def test_the_wait_is_estimated_from_how_long_places_are_used() -> None:
    queue: FairQueue[str] = FairQueue(2, 0)
    queue.enter("first", "ada", 0)
    assert queue.seconds_to_wait(0) == 0
    queue.leave("first", 20)
    queue.enter("second", "ada", 20)
    queue.enter("third", "ada", 20)
    with pytest.raises(QueueFull) as full:
        queue.enter("fourth", "ada", 20)
    assert full.value.seconds == 10


def test_the_estimate_counts_those_that_wait_patiently() -> None:
    queue: FairQueue[str] = FairQueue(1, 0)
    queue.enter("first", "ada", 0)
    queue.leave("first", 5)
    queue.enter("second", "ada", 5)
    queue.enter("patient", "ada", 5, patient=True)
    with pytest.raises(QueueFull) as full:
        queue.enter("third", "ada", 5)
    assert full.value.seconds == 10


def test_more_places_are_used_at_once_and_fewer_as_soon_as_they_are_free() -> None:
    queue = filled(1, 5)
    queue.enter("eve 1", "eve", 0)
    queue.enter("eve 2", "eve", 0)
    assert queue.resize(3, 5, 0) == ["eve 1", "eve 2"]
    assert queue.resize(1, 5, 0) == []
    queue.enter("eve 3", "eve", 0)
    assert queue.leave("eve 1", 1) == queue.leave("eve 2", 1) == []
    assert queue.leave("running 0", 1) == ["eve 3"]


def test_the_estimate_counts_all_that_wait_already() -> None:
    queue = filled(2, 10)
    queue.leave("running 0", 8)
    queue.enter("running 0", "eve", 8)
    for number in range(5):
        queue.enter(number_to_ticket(number), "eve", 8)
    # Six that take eight seconds each, two at a time.
    assert queue.seconds_to_wait(8) == 24
    queue.leave(number_to_ticket(4), 8)
    assert queue.seconds_to_wait(8) == 20


def test_before_any_use_has_ended_those_that_run_say_how_long_one_takes() -> None:
    queue = filled(2, 1)
    queue.enter("waiting", "eve", 30)
    with pytest.raises(QueueFull) as full:
        queue.enter("one more", "eve", 30)
    assert full.value.seconds == 30


def test_uses_that_take_longer_than_earlier_ones_make_the_estimate_longer() -> None:
    queue: FairQueue[str] = FairQueue(1, 0)
    queue.enter("first", "ada", 0)
    queue.leave("first", 1)
    queue.enter("second", "ada", 1)
    assert [queue.seconds_to_wait(now) for now in (1, 2, 41)] == [1, 1, 40]


def test_an_owner_that_may_not_have_all_places_leaves_the_others_free() -> None:
    queue: FairQueue[str] = FairQueue(3, 10, own_places=2)
    for number in range(4):
        queue.enter(f"eve {number}", "eve", 0)
    assert [queue.runs(f"eve {number}") for number in range(4)] == [True, True, False, False]
    queue.enter("ada", "ada", 0)
    assert queue.runs("ada")
    # Nor does she get the place of another.
    assert queue.leave("ada", 1) == []
    assert queue.leave("eve 0", 1) == ["eve 2"]
    assert queue.leave("eve 1", 1) == ["eve 3"]


class Traffic(RuleBasedStateMachine):
    """Requests come, wait, are served, leave and are refused, in any order."""

    PLACES = 3
    MOST_WAITING = 4
    # Of one owner.
    OWN_PLACES: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.queue: FairQueue[int] = FairQueue(self.PLACES, self.MOST_WAITING, self.OWN_PLACES)
        self.next = 0
        self.owners: dict[int, str] = {}
        self.patient: set[int] = set()
        # In the order in which they came.
        self.waiting: list[int] = []
        self.running: set[int] = set()
        # How many of other owners were served since each one that waits came.
        self.passed: dict[int, list[str]] = {}

    @rule(owner=OWNERS, patient=st.booleans())
    def enter(self, owner: str, patient: bool) -> None:
        ticket, self.next = self.next, self.next + 1
        was_full = self.queue.is_full or not self.may_run(owner)
        try:
            entered = self.queue.enter(ticket, owner, self.next, patient=patient)
        except QueueFull:
            assert was_full
            assert not patient
            assert self.queue.waiting == self.MOST_WAITING
            return
        assert (entered == ticket) == self.queue.runs(ticket)
        if entered is not None and entered != ticket:
            assert entered in self.waiting
            assert entered not in self.patient
            assert self.owners[entered] != owner
            self.waiting.remove(entered)
        self.owners[ticket] = owner
        if patient:
            self.patient.add(ticket)
        if self.queue.runs(ticket):
            assert not was_full
            self.running.add(ticket)
        else:
            self.waiting.append(ticket)
            self.passed[ticket] = []

    def may_run(self, owner: str) -> bool:
        return self.OWN_PLACES is None or sum(self.owners[ticket] == owner for ticket in self.running) < self.OWN_PLACES

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        present = sorted(self.running) + self.waiting
        if not present:
            return
        ticket = data.draw(st.sampled_from(present))
        begun = self.queue.leave(ticket, self.next)
        self.running.discard(ticket)
        if ticket in self.waiting:
            self.waiting.remove(ticket)
            assert begun == []
        for served in begun:
            owner = self.owners[served]
            # First come, first served, within one owner.
            assert served == next(other for other in self.waiting if self.owners[other] == owner)
            self.waiting.remove(served)
            for other in self.waiting:
                if self.may_run(self.owners[other]):
                    self.passed[other].append(owner)
            self.running.add(served)

    @invariant()
    def never_more_than_the_places(self) -> None:
        assert self.queue.running == len(self.running) <= self.PLACES
        if self.OWN_PLACES is not None:
            of_owners = [self.owners[ticket] for ticket in self.running]
            assert all(of_owners.count(owner) <= self.OWN_PLACES for owner in of_owners)
        assert {ticket for ticket in self.owners if self.queue.runs(ticket)} == self.running

    @invariant()
    def no_place_is_free_while_one_waits(self) -> None:
        could_run = [ticket for ticket in self.waiting if self.may_run(self.owners[ticket])]
        assert not could_run or len(self.running) == self.PLACES
        assert self.queue.waiting == len([ticket for ticket in self.waiting if ticket not in self.patient])
        assert self.queue.waiting <= self.MOST_WAITING

    @invariant()
    def no_owner_starves(self) -> None:
        """The first of an owner waits for no more than one of each other owner."""
        first: dict[str, int] = {}
        for ticket in self.waiting:
            first.setdefault(self.owners[ticket], ticket)
        for owner, ticket in first.items():
            since = self.passed[ticket]
            own = [at for at, other in enumerate(since) if other == owner]
            recent = since[own[-1] + 1 :] if own else since
            assert all(recent.count(other) <= 1 for other in set(recent))

    def teardown(self) -> None:
        while self.running:
            self.running |= set(self.queue.leave(self.running.pop(), self.next))
        assert (self.queue.running, self.queue.waiting) == (0, 0)


class TrafficWithOwnPlaces(Traffic):
    OWN_PLACES = 2


TestTraffic = Traffic.TestCase
TestTrafficWithOwnPlaces = TrafficWithOwnPlaces.TestCase
