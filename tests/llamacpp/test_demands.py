"""Random weights behind Antiphon make valid calls and valid answers, every time. Asked directly, llama.cpp does not."""

import pytest
from support.gateway import running_gateway

from bench.choices import measure
from bench.varied import KINDS, Kind

REQUESTS = 50


@pytest.mark.parametrize("kind", KINDS)
async def test_every_demand_is_met(tiny: str, kind: Kind) -> None:
    async with running_gateway(tiny) as gateway:
        row = await measure(kind, "tiny", tiny, gateway.url, REQUESTS)
    assert row.failures == ()
    assert row.through == REQUESTS
    # A schema is kept by the engine itself; choices are not.
    assert row.directly == (REQUESTS if kind == "json_schema" else 0)
