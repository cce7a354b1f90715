"""Notices: in the header, and in the response itself, however it is fetched."""

import msgspec
import pytest
from support.background import Background
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway


async def test_a_notice_that_comes_up_during_a_stream_is_in_its_last_event(engine: MockEngine) -> None:
    engine.will(text("Hi").replace(b"usage", b"unused"))
    async with running_gateway(engine) as gateway:
        events = await gateway.stream(flavour="sweet")
        early = ["field flavour is unknown and was left out"]
        late = [*early, "usage is estimated: the engine reports none"]
        assert events[0]["response"]["antiphon_notices"] == early
        assert gateway.notice == early[0]
        last = events[-1]["response"]
        assert last["antiphon_notices"] == late
        _, stored = await gateway.get(f"/v1/responses/{last['id']}")
        assert stored["antiphon_notices"] == late


@pytest.mark.parametrize("stream", [False, True])
async def test_the_notices_of_a_background_response_are_in_all_that_is_shown_of_it(
    gateway: GatewayUnderTest, stream: bool
) -> None:
    body = {"model": "mock", "input": "Hi", "background": True, "stream": stream, "flavour": "sweet"}
    notices = ["field flavour is unknown and was left out"]
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answer:
        raw = await answer.read()
    if stream:
        frames = [frame.partition(b"data: ")[2] for frame in raw.split(b"\n\n") if b'"response":' in frame]
        shown = [msgspec.json.decode(frame)["response"] for frame in frames]
        assert len(shown) == 4
    else:
        queued = msgspec.json.decode(raw)
        shown = [queued, await Background(gateway).ended(queued["id"])]
    assert all(response["antiphon_notices"] == notices for response in shown)


async def test_a_queued_response_has_the_notices_about_its_definitions(gateway: GatewayUnderTest) -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: missing"}
    tools = [{"type": "custom", "name": "add", "format": grammar}]
    _, queued = await gateway.post({"model": "mock", "input": "Hi", "background": True, "tools": tools})
    assert queued["status"] == "queued"
    assert any("the grammar of tool add cannot be read" in notice for notice in queued["antiphon_notices"])
