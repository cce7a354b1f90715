"""The length of an input, and the truncation of one that is too long."""

from typing import Any

from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway, standing_before

# ---- counted ---------------------------------------------------------------------------------------------------------


async def counted(gateway: GatewayUnderTest, **body: Any) -> int:
    status, answer = await gateway.post(body, "/v1/responses/input_tokens")
    assert status == 200, answer
    assert answer["object"] == "response.input_tokens"
    tokens: int = answer["input_tokens"]
    return tokens


async def test_input_is_counted_by_the_engines_template_and_tokenizer() -> None:
    paths = {
        "/apply-template": lambda body: {"prompt": " ".join(message["content"] for message in body["messages"])},
        "/tokenize": lambda body: {"tokens": body["content"].split()},
    }
    engine = MockEngine(owned_by="llamacpp", paths=paths)
    await engine.start()
    async with running_gateway(engine) as gateway:
        assert await counted(gateway, input="one two three", instructions="be brief") == 5
        assert "template and tokenizer" in gateway.notice
    assert engine.requests == []
    await engine.stop()


async def test_without_a_tokenizer_input_is_counted_by_asking_for_one_token(
    engine: MockEngine, gateway: GatewayUnderTest
) -> None:
    engine.will(text("H", finish="length"))
    assert await counted(gateway, input="Hi") == 12
    assert engine.last["max_tokens"] == 1
    assert "one token" in gateway.notice


async def test_a_request_that_wants_no_answer_is_counted(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(text("H", finish="length"))
    assert await counted(gateway, input="Hi", prompt_cache_options={"prewarm": True}) == 12


async def test_the_history_is_counted_too(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    first = await gateway.create("One")
    _, conversation = await gateway.post({"items": [{"role": "user", "content": "Two"}]}, "/v1/conversations")
    await counted(gateway, input="Three", previous_response_id=first["id"])
    assert [message["content"] for message in engine.last["messages"]] == ["One", "Hello world", "Three"]
    await counted(gateway, input="Three", conversation=conversation["id"])
    assert [message["content"] for message in engine.last["messages"]] == ["Two", "Three"]
    # Nobody was kept from the conversation by it, and nothing was said in it.
    await gateway.create("Four", conversation=conversation["id"])
    assert [message["content"] for message in engine.last["messages"]] == ["Two", "Four"]


async def test_a_bad_request_is_rejected(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"input": [{}]}, "/v1/responses/input_tokens")
    assert (status, body["error"]["param"]) == (400, "input[0].type")


# ---- truncated -------------------------------------------------------------------------------------------------------

WORDS = "request ({asked} tokens) exceeds the available context size ({most} tokens), try increasing it"


def overflow(asked: int, most: int) -> Refusal:
    message = WORDS.format(asked=asked, most=most)
    return Refusal(400, {"error": {"code": 400, "message": message, "type": "exceed_context_size_error"}})


def history(turns: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "developer", "content": "Be brief."}]
    for number in range(turns):
        items += [
            {"role": "user", "content": f"Question {number}"},
            {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "done"},
            {"role": "assistant", "content": f"Answer {number}"},
        ]
    return [*items, {"role": "user", "content": "And now?"}]


def asked_of(engine: MockEngine) -> list[str]:
    return [message["content"] for message in engine.last["messages"] if message["role"] == "user"]


async def test_the_oldest_turns_are_left_out_until_it_fits() -> None:
    async with standing_before("llamacpp", overflow(2000, 1000), overflow(1010, 1000), text("Fine.")) as (gateway, engine):
        response = await gateway.create(history(10), truncation="auto")
        assert response["truncation"] == "auto"
        assert "oldest turns" in gateway.notice
        questions = asked_of(engine)
        assert questions[-2:] == ["Question 9", "And now?"]
        assert 3 <= len(questions) <= 6
        assert engine.last["messages"][0] == {"role": "system", "content": "Be brief."}
        assert len(engine.requests) == 3


async def test_a_message_that_does_not_fit_even_alone_is_rejected() -> None:
    async with standing_before("llamacpp", *[overflow(9000, 10)] * 9) as (gateway, engine):
        status, body = await gateway.post({"input": history(3), "truncation": "auto"})
        assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
        assert asked_of(engine) == ["And now?"]


async def test_without_truncation_nothing_is_left_out() -> None:
    async with standing_before("llamacpp", overflow(2000, 1000)) as (gateway, engine):
        status, body = await gateway.post({"input": history(3)})
        assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
        assert len(engine.requests) == 1
