"""The conversations that all clients have: what the model says in them, and what the engine must get.

"Weather?" with a tool `weather`, "Invent a person." with a schema, and "My name is Ada." followed by "What is my name?".
One expectation serves all clients.
"""

from typing import Any

import msgspec

from support.codex import arguments
from support.engine import Body, Script, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest

THOUGHT = "I should think about this."
THINKS = chunk({"reasoning": THOUGHT})
THOUGHT_SENT_BACK = f"<think>\n{THOUGHT}\n</think>\n\n"


def two_calls(name: str = "weather") -> bytes:
    first, second = call(name, '{"city": "Paris"}'), call(name, '{"city": "Rome"}', id="call_2", index=1)
    return answer(THINKS, first, second, finish="tool_calls")


def two_commands() -> bytes:
    """Two calls of the shell that coding agents have."""

    def shell(command: str, **more: Any) -> bytes:
        return call("bash", arguments(command=command, description="Writes a file"), **more)

    first, second = shell("echo one | tee 1.txt"), shell("echo two | tee 2.txt", id="call_2", index=1)
    return answer(THINKS, first, second, finish="tool_calls")


def written(*calls: tuple[str, Body]) -> bytes:
    """A thought and calls as a weak engine answers: all is text, split anywhere, and `finish_reason` is that of a text."""
    made = [f"<tool_call>\n{arguments(name=name, arguments=given)}\n</tool_call>" for name, given in calls]
    said = "\n".join(["<think>", THOUGHT, "</think>", "", *made])
    return text(*(said[at : at + 10] for at in range(0, len(said), 10)))


def written_calls(name: str = "weather") -> bytes:
    """The two calls in text."""
    return written(*((name, {"city": city}) for city in ("Paris", "Rome")))


TWO_CALLS = two_calls()
# As an engine answers that ignores the choice of a tool, or a schema.
NO_CALL = text("It is ", "sunny.")
NO_OBJECT = text("Ada is 36 years old.")
WRAPPED_PERSON = text("Here you are:\n```json\n", '{"name": "Ada",', ' "age": 36}', "\n```\nIs that what you wanted?")
PERSON = text('{"name": "Ada",', ' "age": 36}')
CUT_OFF = text("Hel", "lo", finish="length")
BROKEN = chunk({"content": "Hel"}) + b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
GREETING = answer(THINKS, chunk({"content": "Hello, "}), chunk({"content": "Ada."}))


def over_websockets(gateway: GatewayUnderTest, *answers: bytes) -> list[Script]:
    """These answers. Each is only given while a client is connected by a WebSocket."""

    def checked(given: bytes) -> Script:
        async def script(write: Writer) -> None:
            await write(given if gateway.connections else text("There is no WebSocket."))

        return script

    return [checked(given) for given in answers]


def messages(request: Body) -> list[Body]:
    """The messages that an engine got, with the arguments of calls decoded: clients write the same JSON differently."""
    decoded = msgspec.json.decode(msgspec.json.encode(request["messages"]))
    for message in decoded:
        for made in message.get("tool_calls", []):
            made["function"]["arguments"] = msgspec.json.decode(made["function"]["arguments"])
    return list(decoded)


def system(content: str) -> Body:
    return {"role": "system", "content": content}


def user(content: str) -> Body:
    return {"role": "user", "content": content}


def assistant(content: str, *calls: Body) -> Body:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def weather_call(city: str, *, id: str, name: str) -> Body:
    return {"id": id, "function": {"name": name, "arguments": {"city": city}}, "type": "function"}


def result(content: str, *, id: str) -> Body:
    return {"role": "tool", "content": content, "tool_call_id": id}


def renumbered(given: list[Body]) -> list[Body]:
    """Messages whose calls have the ids call_1, call_2, …: an engine that writes them as text gives them none."""
    made = [each for message in given for each in message.get("tool_calls", [])]
    ids = {each["id"]: f"call_{at}" for at, each in enumerate(made, 1)}
    for each in made:
        each["id"] = ids[each["id"]]
    return [
        message | {"tool_call_id": ids[message["tool_call_id"]]} if "tool_call_id" in message else message for message in given
    ]


RESULTS = [result("sunny in Paris", id="call_1"), result("sunny in Rome", id="call_2")]


def after_two_calls(name: str = "weather", *, thought: bool = True) -> list[Body]:
    made = [weather_call("Paris", id="call_1", name=name), weather_call("Rome", id="call_2", name=name)]
    return [user("Weather?"), assistant(THOUGHT_SENT_BACK if thought else "", *made), *RESULTS]


def calls_made(request: Body) -> list[str]:
    """The ids of all calls in the messages that an engine got."""
    return [made["id"] for message in request["messages"] for made in message.get("tool_calls", [])]


def second_turn(*, thought: bool = True) -> list[Body]:
    said = f"{THOUGHT_SENT_BACK if thought else ''}Hello, Ada."
    return [user("My name is Ada."), assistant(said), user("What is my name?")]


def schema_of(request: Body) -> Body:
    """The JSON schema that an engine was given for its answer: its properties and what it requires."""
    schema = request["response_format"]["json_schema"]["schema"]
    types = {name: member["type"] for name, member in schema["properties"].items()}
    return {"types": types, "required": schema["required"]}


SCHEMA_OF_PERSON = {"types": {"name": "string", "age": "number"}, "required": ["name", "age"]}
