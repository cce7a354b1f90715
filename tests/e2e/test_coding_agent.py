"""A coding agent that sends its whole history each time: one call, several in sequence, and a pause for approval."""

from typing import Any

from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest

SHELL = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}


class CodingAgent:
    """Keeps the history as Codex does: every output item as it was done, then the outputs of the calls."""

    def __init__(self, gateway: GatewayUnderTest, engine: MockEngine) -> None:
        self.gateway = gateway
        self.engine = engine
        self.history: list[dict[str, Any]] = [{"role": "developer", "content": "You are a coding agent."}]
        self.ids: list[str] = []

    def say(self, text: str) -> None:
        self.history.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    async def turn(self) -> list[dict[str, Any]]:
        before = [body["messages"] for body in self.engine.requests]
        sent = {str(item.get("id")) for item in self.history}
        events = await self.gateway.stream(self.history, tools=[SHELL], store=False, reasoning={"summary": "auto"})
        response = events[-1]["response"]
        assert response["id"] not in self.ids, "a new response has a new id"
        assert not sent & {item["id"] for item in response["output"]}, "nothing of the input is echoed"
        if before:
            assert self.engine.last["messages"][: len(before[-1])] == before[-1], "the history only grows at its end"
        self.ids.append(response["id"])
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == response["output"]
        self.history += done
        return done

    def run(self, calls: list[dict[str, Any]]) -> None:
        for item in calls:
            if item["type"] == "function_call":
                output = f"ran {item['arguments']}"
                self.history.append({"type": "function_call_output", "call_id": item["call_id"], "output": output})


def shell(number: int) -> bytes:
    return call("shell", f'{{"cmd": "step {number}"}}', id=f"call_{number}")


async def test_one_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning_content": "I look."}), shell(1), finish="tool_calls"), text("Done."))
    agent = CodingAgent(gateway, engine)
    agent.say("Create hello.txt")
    items = await agent.turn()
    assert [item["type"] for item in items] == ["reasoning", "function_call"]
    agent.run(items)
    items = await agent.turn()
    assert [item["type"] for item in items] == ["message"]
    assert [message["role"] for message in engine.last["messages"]] == ["system", "user", "assistant", "tool"]


async def test_several_calls_in_sequence(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    agent = CodingAgent(gateway, engine)
    agent.say("Fix the tests")
    for number in range(1, 6):
        engine.will(answer(chunk({"content": f"Step {number}."}), shell(number), finish="tool_calls"))
        items = await agent.turn()
        assert [item["type"] for item in items] == ["message", "function_call"]
        agent.run(items)
    engine.will(text("All green."))
    await agent.turn()
    assert len(agent.ids) == 6
    assert [message["role"] for message in engine.last["messages"]] == ["system", "user", *["assistant", "tool"] * 5]


async def test_a_pause_for_approval_in_between(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(
        answer(shell(1), call("shell", '{"cmd": "rm"}', id="call_2", index=1), finish="tool_calls"),
        text("As you wish."),
        text("Done then."),
    )
    agent = CodingAgent(gateway, engine)
    agent.say("Clean up")
    items = await agent.turn()
    assert [item["call_id"] for item in items] == ["call_1", "call_2"]
    # The person approves of the first call and declines the second; both answers go back, the second one first.
    declined = {"type": "function_call_output", "call_id": "call_2", "output": "declined by the user"}
    agent.history.append(declined)
    agent.run(items[:1])
    await agent.turn()
    agent.say("Go on without it")
    await agent.turn()
    messages = engine.last["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    assert [message["content"] for message in messages[3:5]] == ['ran {"cmd": "step 1"}', "declined by the user"]
