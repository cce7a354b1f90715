"""What there is to find."""

import pytest
from support.file_stores import FileStores


@pytest.fixture
def stores() -> FileStores:
    return FileStores()
