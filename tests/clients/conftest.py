"""A process of each client that plays scenarios, for all tests of a session."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from support.client_table import CLIENTS
from support.clients import FOLDER, Player, playing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(f"{FOLDER}{os.sep}"):
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(120, func_only=True))  # the first test waits for the packages


@pytest.fixture(scope="session")
def players(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Player]]:
    """Starts a client when it is first asked for by its name in `CLIENTS`; all end with the session."""
    with ExitStack() as running:

        @cache
        def player(name: str) -> Player:
            command = CLIENTS[name].script.command()
            return running.enter_context(playing(command, tmp_path_factory.mktemp(name)))

        yield player


@pytest.fixture
def client(request: pytest.FixtureRequest, players: Callable[[str], Player]) -> Player:
    """The client of the test's parameter, or of its module's `CLIENT`."""
    return players(getattr(request, "param", None) or request.module.CLIENT)
