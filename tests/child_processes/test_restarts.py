"""The pauses before a dead process is started again."""

from antiphon.child_processes.child import RestartPauses, Restarts


def test_the_pause_doubles_with_every_death_up_to_the_longest() -> None:
    restarts = Restarts(RestartPauses(first=1.0, longest=3.0, stable_after=10.0), now=lambda: 0.0)
    pauses = []
    for _ in range(4):
        restarts.begin()
        pauses.append(restarts.pause())
    assert pauses == [1.0, 2.0, 3.0, 3.0]
    assert not restarts.was_stable


def test_it_starts_over_after_a_process_that_ran_for_long() -> None:
    clock = [0.0]
    restarts = Restarts(RestartPauses(first=1.0, longest=8.0, stable_after=10.0), now=lambda: clock[0])
    restarts.begin()
    assert [restarts.pause(), restarts.pause()] == [1.0, 2.0]
    restarts.begin()
    clock[0] += 10.0
    assert restarts.pause() == 1.0
    assert restarts.was_stable
    restarts.begin()
    assert restarts.pause() == 2.0
