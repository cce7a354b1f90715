"""Sealed reasoning and compactions, which clients send back."""

from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway

SEALED = ["reasoning.encrypted_content"]
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


async def test_requested_reasoning_is_sealed_and_is_opened_when_it_is_sent_back(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(chunk({"reasoning": "I think so."}), call("f", "{}"), finish="tool_calls"), text("Done."))
    output = (await gateway.stream(include=SEALED, tools=[TOOL]))[-1]["response"]["output"]
    assert output[0]["encrypted_content"].startswith("antiphon1.")
    # A client that keeps nothing but the seal.
    kept = {"type": "reasoning", "id": output[0]["id"], "summary": [], "encrypted_content": output[0]["encrypted_content"]}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
    await gateway.create([{"role": "user", "content": "Hi"}, kept, output[1], result])
    assert "I think so." in engine.last["messages"][1]["content"]
    assert gateway.notice == ""


async def test_what_is_stored_is_not_sealed_unless_it_is_requested(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning": "I think so."}), chunk({"content": "Yes"})))
    assert "encrypted_content" not in (await gateway.create())["output"][0]


async def test_reasoning_that_is_not_stored_is_sealed_without_being_asked(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(*[answer(chunk({"reasoning": "I think so."}), chunk({"content": "Yes"}))] * 2)
    whole = (await gateway.create(store=False))["output"][0]
    streamed = (await gateway.stream(store=False))[-1]["response"]["output"][0]
    for item in (whole, streamed):
        kept = {"type": "reasoning", "id": item["id"], "summary": [], "encrypted_content": item["encrypted_content"]}
        await gateway.create([{"role": "user", "content": "Hi"}, kept, {"role": "assistant", "content": "Yes"}])
        assert "I think so." in engine.last["messages"][1]["content"]


async def test_the_seal_of_another_key_is_ignored_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    foreign = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "In short."}], "encrypted_content": "gAAAA"}
    await gateway.create([{"role": "user", "content": "Hi"}, foreign, {"role": "assistant", "content": "Yes"}])
    assert "In short." in engine.last["messages"][1]["content"]
    assert "sealed reasoning" in gateway.notice


async def test_a_compaction_trigger_gives_one_sealed_summary_that_is_context_afterwards(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(chunk({"reasoning": "hm"}), chunk({"content": "The user wants "}), chunk({"content": "a file."})))
    history = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Make a file"}]
    events = await gateway.stream([*history, {"type": "compaction_trigger"}], tools=[TOOL])
    assert "tools" not in engine.last
    assert "hand-over" in engine.last["messages"][-1]["content"]
    (item,) = events[-1]["response"]["output"]
    assert item["type"] == "compaction"
    assert "user wants" not in item["encrypted_content"]
    await gateway.create([history[0], item, {"role": "user", "content": "Go on"}])
    assert "The user wants a file." in engine.last["messages"][1]["content"]


async def test_the_compact_route_gives_the_messages_of_the_user_and_then_the_same_item(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await gateway.create([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Make a file"}])
    engine.will(text("All is done."))
    request = {"model": "mock", "previous_response_id": first["id"], "input": "Now delete it"}
    status, body = await gateway.post(request, path="/v1/responses/compact")
    assert status == 200
    assert body.keys() == {"id", "object", "created_at", "output", "usage"}
    assert body["object"] == "response.compaction"
    *messages, item = body["output"]
    assert item["type"] == "compaction"
    for message, said in zip(messages, ["Make a file", "Now delete it"], strict=True):
        assert message["id"].startswith("msg_")
        assert (message["type"], message["role"], message["status"]) == ("message", "user", "completed")
        assert message["content"] == [{"type": "input_text", "text": said}]
    assert body["usage"]["total_tokens"] == 17


async def test_the_window_of_the_compact_route_comes_back_as_its_compaction(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    """Each message is in the prompt once, those included that the window does not have."""
    history = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Make a file"}]
    said = [{"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "An empty one"}]
    engine.will(text("A file is wanted."))
    _, body = await gateway.post({"model": "mock", "input": [*history, *said]}, path="/v1/responses/compact")
    await gateway.create([*body["output"], {"role": "user", "content": "Go on"}])
    system, summary, *rest = [message["content"] for message in engine.last["messages"]]
    assert system == "Be kind."
    assert summary.endswith("\n\nA file is wanted.")
    assert rest == ["An empty one", "Go on"]


async def test_the_compact_route_needs_a_model(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    status, body = await gateway.post({"input": "Hi"}, path="/v1/responses/compact")
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, "model", "missing_required_parameter")
    assert engine.requests == []


async def test_an_engine_that_gives_no_summary_is_an_error(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(), answer())
    events = await gateway.stream([{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}])
    assert events[-1]["type"] == "response.failed"
    status, body = await gateway.post({"model": "mock", "input": "Hi"}, path="/v1/responses/compact")
    assert status == 502
    assert "no summary" in body["error"]["message"]


async def test_a_summary_that_was_cut_off_is_an_error(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("The user wan", finish="length"))
    status, body = await gateway.post({"model": "mock", "input": "Hi"}, path="/v1/responses/compact")
    assert status == 502
    assert "max_output_tokens" in body["error"]["message"]


async def test_half_a_summary_replaces_nothing(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("The user wan", finish="length"))
    first = await gateway.create([{"role": "user", "content": "Make a file"}, {"type": "compaction_trigger"}])
    assert (first["status"], first["output"][0]["encrypted_content"]) == ("incomplete", "")
    await gateway.create("Go on", previous_response_id=first["id"])
    assert engine.last["messages"][0]["content"] == "Make a file"


async def test_a_chain_is_compacted_once(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """The responses after the compaction are answers again, with tools, and see the compaction in place of the rest."""
    first = await gateway.create("Make a file")
    engine.will(text("A file is wanted."))
    compacted = await gateway.create([{"type": "compaction_trigger"}], previous_response_id=first["id"], tools=[TOOL])
    assert [item["type"] for item in compacted["output"]] == ["compaction"]
    third = await gateway.create("Go on", previous_response_id=compacted["id"], tools=[TOOL])
    assert third["output"][0]["type"] == "message"
    assert engine.last["tools"]
    prompt = engine.last["messages"]
    assert [message["content"] for message in prompt[1:]] == ["Make a file", "Hello world", "Go on"]
    await gateway.create("And on", previous_response_id=third["id"], tools=[TOOL])
    assert engine.last["messages"][: len(prompt)] == prompt


async def test_a_conversation_is_compacted_once(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({"items": [{"role": "user", "content": "Make a file"}]}, "/v1/conversations")
    engine.will(text("A file is wanted."))
    await gateway.create([{"type": "compaction_trigger"}], conversation=conversation["id"])
    await gateway.create("Go on", conversation=conversation["id"], tools=[TOOL])
    assert [message["content"] for message in engine.last["messages"][1:]] == ["Make a file", "Go on"]
    assert engine.last["tools"]


async def test_gateways_with_one_key_open_each_others_seals(engine: MockEngine) -> None:
    engine.will(text("All is done."))
    async with running_gateway(engine, seal_key="shared") as one, running_gateway(engine, seal_key="shared") as other:
        _, body = await one.post({"model": "mock", "input": "Make a file"}, path="/v1/responses/compact")
        await other.create([*body["output"], {"role": "user", "content": "Go on"}])
    assert "All is done." in engine.last["messages"][0]["content"]
