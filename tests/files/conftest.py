"""Every test of files runs with every store."""

import pytest

from antiphon.files.library import FileLibrary, FileLimits
from antiphon.ids import new_id
from antiphon.store import Store


@pytest.fixture
def library(store: Store) -> FileLibrary:
    # Nothing is too young to be swept.
    return FileLibrary(store.files, FileLimits(), new_id, lost_age=-1)
