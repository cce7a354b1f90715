"""Where the programs of the documents are run."""

from collections.abc import Iterator

import pytest
from support.documented_programs import Programs, programs_with_the_sdk


@pytest.fixture(scope="module")
def sdk_programs() -> Iterator[Programs]:
    with programs_with_the_sdk() as running:
        yield running
