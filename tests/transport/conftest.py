"""Every test here runs on both transports."""

import pytest

from antiphon.settings.settings import TransportName
from antiphon.transport import Transport, choose


@pytest.fixture(params=["fast", "plain"])
def name(request: pytest.FixtureRequest) -> TransportName:
    chosen: TransportName = request.param
    return chosen


@pytest.fixture
def transport(name: TransportName) -> Transport:
    return choose(name)
