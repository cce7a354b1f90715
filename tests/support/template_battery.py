"""The battery: what every conversation may need of a model, whatever its chat template demands. One function a cell.

The model is random, so only structure is checked: that a response is completed, that what was required came, that calls and
answers follow their schemas, that the history stays in the engine's cache.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from support.gateway import GatewayUnderTest
from support.streams import check_response, check_stream, parse

Body = dict[str, Any]

CONTEXT = 14336
ROUNDS = 30
CACHED_SHARE = 0.9
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# A tiny model writes about forty tokens before it ends, and fewer where it must call. Only a thought has no end.
MOST_TOKENS = 512
MOST_TOKENS_OF_A_CALL = 192

PARAMETERS: Body = {
    "type": "object",
    "properties": {"bed": {"type": "string", "enum": ["roses", "beans"]}},
    "required": ["bed"],
    "additionalProperties": False,
}
NAMES = ("water_bed", "weed_bed")
TOOLS: list[Body] = [
    {"type": "function", "name": name, "description": f"Can {name.replace('_', ' ')}.", "parameters": PARAMETERS}
    for name in NAMES
]
SCHEMA: Body = {
    "type": "object",
    "properties": {"plant": {"type": "string", "enum": ["rose", "bean"]}, "ripe": {"type": "boolean"}},
    "required": ["plant", "ripe"],
    "additionalProperties": False,
}
FORMAT = {"format": {"type": "json_schema", "name": "plant", "schema": SCHEMA, "strict": True}}
# Long against one round of tools, as the instructions of an agent are.
INSTRUCTIONS = "You are an agent that looks after a garden. " * 60

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def assistant(text: str) -> Body:
    return {"role": "assistant", "content": text}


def thought(text: str) -> Body:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def call(id: str, name: str = "water_bed") -> Body:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": '{"bed": "beans"}'}


def output(id: str, text: str = "Done.") -> Body:
    return {"type": "function_call_output", "call_id": id, "output": text}


class Client:
    """Sends the requests of the battery, streamed or whole."""

    def __init__(self, gateway: GatewayUnderTest, *, streamed: bool, model: str = "tiny", opens_thought: bool = False) -> None:
        self.gateway = gateway
        self.streamed = streamed
        self.model = model
        # The template begins each answer inside a thought.
        self.opens_thought = opens_thought
        # How many requests it has sent.
        self.asked = 0

    async def ask(self, input: Any, **fields: Any) -> tuple[int, Body]:
        """The status, and the response or the error."""
        self.asked += 1
        body = {"model": self.model, "input": input, "max_output_tokens": MOST_TOKENS, "seed": self.asked, **fields}
        if not self.streamed:
            status, response = await self.gateway.post(body)
            if status == 200:
                check_response(response)
            return status, response
        url = self.gateway.url + "/v1/responses"
        async with self.gateway.client.post(url, data=msgspec.json.encode({**body, "stream": True})) as answer:
            self.gateway.notice = answer.headers.get("antiphon-notice", "")
            data = await answer.read()
        return answer.status, check_stream(parse(data)) if answer.status == 200 else msgspec.json.decode(data)

    async def complete(self, input: Any, **fields: Any) -> Body:
        status, response = await self.ask(input, **fields)
        assert (status, response.get("status")) == (200, "completed"), summary(status, response)
        assert {item["type"] for item in response["output"]} <= {"message", "reasoning", "function_call"}
        return response

    async def calls(self, input: Any, allowed: Sequence[str], **fields: Any) -> tuple[list[Body], Body]:
        """The calls of a response that has to make some, each checked."""
        response = await self.complete(input, tools=TOOLS, max_output_tokens=MOST_TOKENS_OF_A_CALL, **fields)
        made = [item for item in response["output"] if item["type"] == "function_call"]
        assert made, response["output"]
        for each in made:
            check_call(each, allowed)
        return made, response


def check_call(item: Body, allowed: Sequence[str] = NAMES) -> None:
    assert item["name"] in allowed
    jsonschema_rs.validate(PARAMETERS, msgspec.json.decode(item["arguments"]))


def summary(status: int, response: Body) -> str:
    """What went wrong, for the reader of a failed test."""
    error = response.get("error") or response.get("incomplete_details")
    return f"{status} {response.get('status', '')}: {error} {str(response.get('output', ''))[:200]}"


# ---- answers ---------------------------------------------------------------------------------------------------------


async def text(client: Client) -> None:
    response = await client.complete("How are the beans?", instructions="Be brief.")
    assert not [item for item in response["output"] if item["type"] == "function_call"]


async def reasoning(client: Client) -> None:
    """A model that thinks, and what it thought is part of the next question."""
    asked = [user("Which bed is dry?")]
    response = await client.complete(asked, reasoning={"effort": "high"})
    kinds = [item["type"] for item in response["output"]]
    if client.opens_thought and response["usage"]["output_tokens"] > 1:
        assert kinds[:1] == ["reasoning"]
    history = [*asked, *response["output"], thought("The roses are."), assistant("The roses."), user("And now?")]
    await client.complete(history, reasoning={"effort": "high"})


async def every_effort(client: Client) -> None:
    for effort in EFFORTS:
        await client.complete("Hello.", reasoning={"effort": effort})


async def json_schema(client: Client) -> None:
    response = await client.complete("Which plant?", text=FORMAT)
    jsonschema_rs.validate(SCHEMA, msgspec.json.decode(response_text(response)))


async def json_schema_with_tools(client: Client) -> None:
    """Either calls, or an answer that follows the schema."""
    response = await client.complete("Which plant?", text=FORMAT, tools=TOOLS)
    made = [item for item in response["output"] if item["type"] == "function_call"]
    for each in made:
        check_call(each)
    if not made:
        jsonschema_rs.validate(SCHEMA, msgspec.json.decode(response_text(response)))


def response_text(response: Body) -> str:
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


# ---- calls -----------------------------------------------------------------------------------------------------------


async def offered_tools(client: Client) -> None:
    response = await client.complete("Look after the beans.", tools=TOOLS)
    for item in response["output"]:
        if item["type"] == "function_call":
            check_call(item)


async def required_call(client: Client) -> None:
    made, response = await client.calls([user("Water the beans.")], NAMES, tool_choice="required")
    results = [output(each["call_id"]) for each in made]
    await client.complete([user("Water the beans."), *response["output"], *results], tools=TOOLS)


async def named_call(client: Client) -> None:
    await client.calls("Hello.", ["weed_bed"], tool_choice={"type": "function", "name": "weed_bed"})


async def allowed_call(client: Client) -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weed_bed"}]}
    await client.calls("Hello.", ["weed_bed"], tool_choice=choice)


async def parallel_calls(client: Client) -> None:
    """Two calls of one turn, with their results, and the next call."""
    history = [
        user("Look after both beds."),
        thought("Both at once."),
        assistant("I water and weed."),
        call("call_00000000000000000000000000000001"),
        call("call_00000000000000000000000000000002", "weed_bed"),
        output("call_00000000000000000000000000000001"),
        output("call_00000000000000000000000000000002"),
    ]
    await client.complete(history, tools=TOOLS, parallel_tool_calls=True)
    await client.calls([*history, user("Again.")], NAMES, tool_choice="required", parallel_tool_calls=True)


async def thirty_rounds(client: Client) -> None:
    """An agent's loop: each round has a thought, a call and its result, and what was there before comes from the cache."""
    history = [user("Look after the beans, every day.")]
    prompts = []
    for number in range(ROUNDS):
        client.streamed = number % 2 == 0
        (made, *_), response = await client.calls(history, NAMES, tool_choice="required", instructions=INSTRUCTIONS)
        # A thought of random weights has no end: a short one takes its place.
        history += [thought(f"Day {number}."), made, output(made["call_id"], f"Day {number} is done.")]
        usage = response["usage"]
        prompts.append((usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]))
    assert min(cached / all for cached, all in prompts[1:]) >= CACHED_SHARE, prompts


# ---- conversations ---------------------------------------------------------------------------------------------------


async def interrupted_call(client: Client) -> None:
    """The user stops an agent, which never sends the output of its call."""
    history = [user("Water the beans."), assistant("I will."), call("call_1"), user("Stop! Weed them instead.")]
    await client.complete(history, tools=TOOLS)


async def user_after_result(client: Client) -> None:
    history = [user("Water the beans."), call("call_1"), output("call_1"), user("And the roses?")]
    await client.complete(history, tools=TOOLS)


async def assistant_first(client: Client) -> None:
    await client.complete([assistant("I am your gardener."), user("Hello.")])
    await client.complete([assistant("I am your gardener."), user("Hello.")], tools=TOOLS, instructions="Be brief.")


async def call_first(client: Client) -> None:
    await client.complete([call("call_1"), output("call_1")], tools=TOOLS)


async def no_user(client: Client) -> None:
    """Only instructions, as agents that start by themselves send them."""
    await client.complete([{"role": "developer", "content": "Greet the user."}])
    await client.complete([{"role": "developer", "content": "Greet the user."}], tools=TOOLS, instructions="Be brief.")


async def users_in_a_row(client: Client) -> None:
    late = {"role": "developer", "content": "Be kind."}
    await client.complete([user("Hello."), user("Are you there?")])
    await client.complete([user("Hello."), assistant("Yes?"), assistant("I am here."), late, user("Good.")])


async def many_demands(client: Client) -> None:
    """All at once: whatever one part needs must not break another."""
    history = [
        assistant("I am your gardener."),
        user("Look after the garden."),
        thought("Both beds are dry."),
        assistant("I begin."),
        call("fc-1"),
        call("fc-2", "weed_bed"),
        output("fc-1", "Watered."),
        output("fc-2", "Weeded."),
        thought("The roses are left."),
        call("fc-3"),
        user("Stop!"),
        {"role": "developer", "content": "The user is in a hurry."},
        assistant("I have stopped."),
        user("Good. Go on."),
        call("fc-4"),
        output("fc-4", "Watered again."),
    ]
    await client.complete(history, tools=TOOLS, instructions="Be brief.", reasoning={"effort": "low"})


async def continued_response(client: Client) -> None:
    """Two turns and a call through previous_response_id."""
    made, first = await client.calls("Water the beans.", NAMES, tool_choice="required", store=True)
    results = [output(each["call_id"]) for each in made]
    second = await client.complete(results, tools=TOOLS, previous_response_id=first["id"])
    await client.complete("And the roses?", tools=TOOLS, previous_response_id=second["id"])


# ---- limits of the model ---------------------------------------------------------------------------------------------


async def image(client: Client) -> None:
    """The model has no eyes, and the client is told so."""
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
    ]
    status, answer = await client.ask([{"role": "user", "content": parts}])
    assert status == 400, summary(status, answer)
    assert "image" in answer["error"]["message"]


async def overflow(client: Client) -> None:
    status, answer = await client.ask("Too long. " * (CONTEXT // 8))
    assert (status, (answer["error"] or {}).get("code")) == (200 if client.streamed else 400, "context_length_exceeded")


async def truncation(client: Client) -> None:
    """The oldest turn is left out, its call with its result."""
    history: list[Body] = []
    for number, result in enumerate(["Too long. " * (CONTEXT // 8), "Done.", "Done."]):
        history += [user(f"Day {number}."), call(f"call_{number}"), output(f"call_{number}", result), assistant("It is done.")]
    await client.complete([*history, user("And now?")], tools=TOOLS, truncation="auto")
    assert "oldest turns" in client.gateway.notice


Cell = Callable[[Client], Awaitable[None]]

# What does not depend on the conversation.
REQUESTS: tuple[Cell, ...] = (
    text,
    json_schema,
    json_schema_with_tools,
    offered_tools,
    named_call,
    allowed_call,
    image,
    overflow,
    truncation,
)
CONVERSATIONS: tuple[Cell, ...] = (
    reasoning,
    every_effort,
    required_call,
    parallel_calls,
    interrupted_call,
    user_after_result,
    assistant_first,
    call_first,
    no_user,
    users_in_a_row,
    many_demands,
    continued_response,
)
