"""The garbage collector of a gateway."""

import gc
from collections.abc import Iterator

import pytest

from antiphon.garbage import THRESHOLDS, collect_less


@pytest.fixture
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("as_before")
def test_what_is_there_is_not_looked_at_again_and_new_objects_less_often() -> None:
    collect_less()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == THRESHOLDS
