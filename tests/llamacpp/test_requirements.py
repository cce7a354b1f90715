"""Behind Antiphon even the weakest models always make valid calls and answers. llama.cpp alone enforces no tool choice."""

import pytest
from support.gateway import running_gateway

from bench.choices import BYTE_BY_BYTE, measure, measure_chat
from bench.varied import KINDS, Kind, Subject

REQUESTS = 50
# Of a real model, which takes seconds for each of them, and reads the examples that it is shown anew for each set of tools.
OF_SMOLLM2 = 16


@pytest.mark.parametrize("kind", KINDS)
async def test_random_weights_meet_every_requirement(tiny: str, kind: Kind) -> None:
    async with running_gateway(tiny) as gateway:
        row = await measure(kind, Subject("tiny", BYTE_BY_BYTE), tiny, gateway.url, REQUESTS)
    assert row.failures == ()
    assert row.through == REQUESTS
    # llama.cpp itself enforces schemas, but not tool choices.
    assert row.directly == (REQUESTS if kind == "json_schema" else 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_clients_of_chat_completions_get_the_same(tiny: str, kind: Kind) -> None:
    async with running_gateway(tiny) as gateway:
        assert await measure_chat(kind, Subject("tiny", BYTE_BY_BYTE), gateway.url, REQUESTS) == []


@pytest.mark.slow
@pytest.mark.smollm2
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
async def test_smollm2_meets_every_requirement(smollm2: str, kind: Kind) -> None:
    async with running_gateway(smollm2) as gateway:
        row = await measure(kind, Subject("smollm2"), smollm2, gateway.url, OF_SMOLLM2, directly=False)
    assert row.failures == ()
    assert row.through == OF_SMOLLM2
