"""Every cell of the battery, on each of our demanding templates, in front of real llama.cpp with random weights."""

import pytest
from support.battery_templates import Subject
from support.gateway import GatewayUnderTest, running_gateway
from support.template_battery import CONVERSATIONS, REQUESTS, ROUNDS, Cell, Client, thirty_rounds

# A conversation is streamed behind one of the gateways, and whole behind the other.
FORMS = [(cell, at % 2 == 0) for at, cell in enumerate(CONVERSATIONS)]
STREAMED = [(cell, True) for cell in REQUESTS]
WHOLE = [pytest.param(cell, False, marks=pytest.mark.slow) for cell in REQUESTS]


def name_of(value: Cell | bool) -> str:
    return ("streamed" if value else "whole") if isinstance(value, bool) else value.__name__


def client_of(subject: Subject, gateway: GatewayUnderTest, *, streamed: bool) -> Client:
    return Client(gateway, streamed=streamed, opens_thought=subject.template.opens_thought)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("cell", "streamed"), [*STREAMED, *WHOLE, *FORMS], ids=name_of)
async def test_a_cell_passes_behind_a_gateway_that_has_probed(
    subject: Subject, probed: GatewayUnderTest, cell: Cell, streamed: bool
) -> None:
    client = client_of(subject, probed, streamed=streamed)
    await cell(client)
    assert client.asked


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_thirty_rounds_of_tools_stay_in_the_cache(subject: Subject, probed: GatewayUnderTest) -> None:
    client = client_of(subject, probed, streamed=True)
    await thirty_rounds(client)
    assert client.asked == ROUNDS


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "streamed"), [(cell, not streamed) for cell, streamed in FORMS], ids=name_of)
async def test_a_conversation_passes_behind_a_gateway_that_never_probes(subject: Subject, cell: Cell, streamed: bool) -> None:
    """All that it can know comes from what the engine shows without an answer, and from what it rejects."""
    async with running_gateway(subject.url, probe=False) as gateway:
        client = client_of(subject, gateway, streamed=streamed)
        await cell(client)
    assert client.asked
