"""Codex, configured for the gateway under test."""

from pathlib import Path

import pytest
from support.codex import Codex, Person, installed
from support.gateway import GatewayUnderTest


@pytest.fixture(scope="session")
def binary() -> Path:
    return installed()


@pytest.fixture
def codex(binary: Path, gateway: GatewayUnderTest, tmp_path: Path) -> Codex:
    return Codex(binary, gateway.url, tmp_path)


@pytest.fixture
def person(tmp_path: Path, binary: Path) -> Person:
    return Person(tmp_path, binary.parent)
