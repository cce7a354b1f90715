"""A client in a process of its own, for each module that names its script."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients import FOLDER, Player, playing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(120, func_only=True))  # the first test waits for the packages


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays the scenarios of the module's `SCRIPT`."""
    folder: Path = tmp_path_factory.mktemp("client")
    with playing(request.module.SCRIPT.command(), folder) as player:
        yield player
