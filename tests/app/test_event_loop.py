"""The garbage collector of a gateway, and what it gives back to the system."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from antiphon.app.start_up import THRESHOLDS, collect_less


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("nothing_frozen")
def test_what_is_there_is_not_looked_at_again_and_new_objects_less_often() -> None:
    collect_less()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == THRESHOLDS


# Large objects, as bodies are, of which one in ten stays. How many megabytes does the process have then?
LARGE_OBJECTS = """
import sys
from pathlib import Path
from antiphon.app.start_up import return_memory

if sys.argv[1] == "returns":
    return_memory()
del bytearray(2 * 1024 * 1024)[:]
kept = [bytearray(2 * 1024 * 1024) for _ in range(100)][::10]
print(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1024**2)
"""


def memory_after_large_objects(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", LARGE_OBJECTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="another allocator")
def test_large_objects_that_are_freed_go_back_to_the_system_whatever_lies_between_them() -> None:
    assert memory_after_large_objects("returns") < memory_after_large_objects("keeps") - 50
