"""A running background response is shown with its output so far, which is built from its stored events."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai.types.responses import Response as SdkResponse
from support.background import Background, held_back
from support.engine import DONE, USAGE, MockEngine, Writer, answer, call, chunk
from support.exchanges import FULL_REQUEST
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import interposed
from support.streams import check_response, parse
from support.sync_runs import replay

from antiphon.core.events.stored import DELTAS, PARTS, OutputSoFar, frame_to_event
from antiphon.gateway.background.followers import ended
from antiphon.gateway.background.progress import current_response
from antiphon.store.records import PAGE_BYTES
from antiphon.wire import events as wire
from antiphon.wire.responses import Response

pytestmark = pytest.mark.timeout(60)

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDED = sorted((GOLDEN / "streams").glob("*.sse"))
IDS = [path.stem for path in RECORDED]

Item = dict[str, Any]


# ---- the fold --------------------------------------------------------------------------------------------------------


def frames_of(raw: bytes) -> list[bytes]:
    """Without the end of the stream, which is no event."""
    return [frame + b"\n\n" for frame in raw.split(b"\n\n")[:-2]]


def shown(frames: list[bytes]) -> list[Item]:
    """The output of these events, in a response as clients get it."""
    response = Response(id="resp_1", created_at=0, model="m", background=True, store=True)
    so_far = OutputSoFar()
    for frame in frames:
        if (event := frame_to_event(frame)) is not None:
            so_far.add(event)
    response.output = so_far.items()
    encoded = msgspec.json.decode(msgspec.json.encode(response))
    check_response(encoded)
    SdkResponse.model_validate(encoded)
    output: list[Item] = encoded["output"]
    return output


def texts_of(item: Item) -> list[str]:
    """All parts of an item that are sent in deltas."""
    parts = [part.get("text", part.get("refusal")) for name in ("content", "summary") for part in item.get(name, ())]
    whole = [item[name] for name in ("arguments", "input") if isinstance(item.get(name), str)]
    return [*parts, *whole, *item.get("action", {}).get("commands", ())]


def leads_to(so_far: Any, final: Any) -> bool:
    """Everything so far is in the final output, at the same place."""
    if isinstance(so_far, dict):
        members = [name for name in so_far if name != "status"]
        return all(name in final and leads_to(so_far[name], final[name]) for name in members)
    if isinstance(so_far, list):
        return len(so_far) <= len(final) and all(map(leads_to, so_far, final))
    if isinstance(so_far, str):
        return str(final).startswith(so_far)
    return so_far is None or so_far == final


def check_every_prefix(frames: list[bytes]) -> None:
    events = [parse(frame, done=False)[0] for frame in frames]
    final: list[Item] = events[-1]["response"]["output"]
    assert shown(frames[:-1]) == final
    done, sent, open_now = 0, 0, False
    for at, event in enumerate(events[:-1]):
        if event["type"].startswith("response.output_item."):
            open_now, sent = event["type"] == "response.output_item.added", 0
            done += not open_now
        sent += len(event.get("delta", ""))
        output = shown(frames[: at + 1])
        assert output[:done] == final[:done]
        assert len(output) == done + open_now
        if open_now:
            assert output[-1].get("status", "in_progress") == "in_progress"
            assert leads_to(output[-1], final[done]), (output[-1], final[done])
            assert sum(map(len, texts_of(output[-1]))) == sent


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
def test_every_prefix_of_a_recording_gives_a_prefix_of_its_output(path: Path) -> None:
    check_every_prefix(frames_of((GOLDEN / "events" / path.name).read_bytes()))
    with_all_options = replay([path.read_bytes()], FULL_REQUEST)
    check_every_prefix(frames_of(with_all_options))


TOOLS: dict[str, tuple[Item, str]] = {
    "custom_tool": ({"type": "custom", "name": "custom_tool"}, '{"input": "one two"}'),
    "tool_search": (
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object", "properties": {}}},
        '{"query": "spawn"}',
    ),
    "local_shell": ({"type": "local_shell"}, '{"command": ["ls"]}'),
    "shell": ({"type": "shell"}, '{"commands": ["ls", "", "pwd"], "timeout_ms": 5}'),
    "apply_patch": ({"type": "apply_patch"}, '{"operation": {"type": "update_file", "path": "a", "diff": "+b"}}'),
}


@pytest.mark.parametrize("kind", TOOLS)
async def test_every_prefix_with_a_call_gives_a_prefix_of_the_output(
    gateway: GatewayUnderTest, engine: MockEngine, kind: str
) -> None:
    tool, arguments = TOOLS[kind]
    engine.will(answer(chunk({"content": "Look."}), call(kind, arguments), finish="tool_calls"))
    events = await gateway.stream("Hi", tools=[tool], background=True)
    message, called = events[-1]["response"]["output"]
    assert (message["type"], called["type"]) == ("message", f"{kind}_call")
    check_every_prefix([f"event: {event['type']}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n" for event in events])


async def test_every_prefix_with_a_citation_gives_a_prefix_of_the_output(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    citations = [{"type": "url_citation", "url": url} for url in ("a", "b")]
    engine.will(answer(chunk({"content": "Look.", "annotations": citations})))
    events = await gateway.stream("Hi", background=True)
    assert len(events[-1]["response"]["output"][0]["content"][0]["annotations"]) == 2
    check_every_prefix([f"event: {event['type']}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n" for event in events])


def kinds_of(ending: str) -> set[type[wire.Event]]:
    kinds = [kind for kind in vars(wire).values() if isinstance(kind, type) and issubclass(kind, wire.Event)]
    return {kind for kind in kinds if str(kind.__struct_config__.tag).endswith(ending)}


def test_every_event_with_new_output_has_a_row() -> None:
    # What commands printed comes at once, when they have ended: the item is whole right after it.
    assert kinds_of(".delta") == {*DELTAS, wire.ShellCallOutputContentDelta}
    assert kinds_of(".added") == {*PARTS, wire.OutputItemAdded}


def test_events_of_an_unknown_type_change_nothing() -> None:
    frames = frames_of((GOLDEN / "events" / RECORDED[-1].name).read_bytes())
    unknown = b'event: response.new.delta\ndata: {"type":"response.new.delta","delta":"x"}\n\n'
    assert shown([frame for each in frames for frame in (each, unknown)]) == shown(frames)


# ---- over HTTP -------------------------------------------------------------------------------------------------------


async def saying(background: Background, id: str, number: int) -> dict[str, Any]:
    """The response once it has so many items."""
    with background.gateway.gateway.store.follow(id) as wakeup:
        while len((response := await background.get(id))["output"]) < number:
            await wakeup.wait()
    return response


async def test_every_gateway_shows_the_output_so_far(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with (
        running_gateway(engine) as gateway,
        running_gateway(engine, shares=gateway.gateway.store, background_workers=0) as other,
    ):
        id = (await Background(gateway).create())["id"]
        response = await saying(Background(other), id, 1)
        assert (response["status"], response["usage"], response["completed_at"]) == ("in_progress", None, None)
        (message,) = response["output"]
        assert (message["type"], message["status"], message["role"]) == ("message", "in_progress", "assistant")
        assert message["content"] == [{"type": "output_text", "text": "Hel", "annotations": [], "logprobs": []}]
        assert response["output_text"] == "Hel"
        go_on.set()
        final = await Background(other).ended(id)
        assert final["output"][0]["content"][0]["text"] == "Hello"
        assert final["output"][0]["id"] == message["id"]


async def test_finished_items_are_complete_while_another_is_in_progress(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on = asyncio.Event()
    thought = chunk({"role": "assistant", "reasoning_content": "I should look."})

    async def script(write: Writer) -> None:
        await write(thought + call("f", '{"a": 1}'))
        await go_on.wait()
        await write(chunk(finish="tool_calls") + USAGE + DONE)

    engine.will(script)
    background = Background(gateway)
    id = (await background.create(tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}}]))["id"]
    thought, called = (await saying(background, id, 2))["output"]
    assert (thought["status"], thought["content"][0]["text"]) == ("completed", "I should look.")
    assert (called["status"], called["name"], called["arguments"]) == ("in_progress", "f", '{"a": 1}')
    go_on.set()
    assert [item["status"] for item in (await background.ended(id))["output"]] == ["completed", "completed"]


async def test_a_response_that_ends_while_it_is_read_is_complete(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    store, interference = interposed()

    async def after_the_end(owner: str, id: str, after: int = -1, most_bytes: int = PAGE_BYTES) -> Any:
        with store.follow(id) as wakeup:
            go_on.set()
            while (record := await store.get(owner, id)) is not None and record.status == "in_progress":
                await wakeup.wait()
        return await interference.store.events(owner, id, after, most_bytes)

    async with running_gateway(engine, shares=store) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        await saying(background, id, 1)
        interference.instead["events"] = after_the_end
        response = await background.get(id)
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert response["usage"]["total_tokens"] == 17


async def test_a_response_whose_key_gets_a_name_while_it_is_read_is_found(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    background, store = Background(gateway), gateway.gateway.store
    id = (await background.create())["id"]
    await saying(background, id, 1)
    as_read = await store.get("", id)
    assert as_read is not None
    await store.move_owner("", "ada")
    running = await current_response(store, as_read)
    assert running is not None
    assert (running.status, running.output_text) == ("in_progress", "Hel")
    go_on.set()
    ended_as = await ended(store, "", id, 10)
    assert ended_as is not None
    assert (ended_as.status, ended_as.owner) == ("completed", "ada")
    complete = await current_response(store, as_read)
    assert complete is not None
    assert (complete.status, complete.output_text) == ("completed", "Hello")
    assert await store.delete("ada", id)
    assert await current_response(store, as_read) is None
    assert await ended(store, "", id, 10) is None
