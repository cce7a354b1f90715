"""Numbers that are too large, too small, no integers or no numbers: a 400 that names the field, wherever they are."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.background import Background
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.postgres import PostgresServer
from support.raw_client import sent
from support.sockets import connected

# As they are in the JSON of a body. None is a number that any field may have.
OUT_OF_RANGE = ["1e999", "-1e999", "1E400", "1" + "0" * 5000]
NO_JSON = ["NaN", "Infinity", "-Infinity"]
LARGE = ["9007199254740993", "9223372036854775808", "18446744073709551616", "1" + "0" * 400]
NO_INTEGERS = ["1.5", "1e308", "1.0", "true", '"1"', "[1]", "{}"]

INTEGERS = ["max_output_tokens", "max_tool_calls", "top_logprobs", "seed", "context_management[0].compact_threshold"]
FLOATS = ["temperature", "top_p", "presence_penalty", "frequency_penalty"]
# Places of numbers that mean nothing to the gateway.
ELSEWHERE = [
    "flavour",
    "client_metadata.a",
    "tools[0].parameters.properties.a.maximum",
    "text.format.schema.properties.a.maximum",
    "input[0].content[0].annotations[0].start_index",
]

Error = dict[str, Any]


def body_with(place: str, number: str) -> bytes:
    """A request with this number in that place."""
    compaction = {"type": "compaction", "compact_threshold": "HERE"}
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"maximum": "HERE"}}}}
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": "HERE"}}}
    citation = {"type": "url_citation", "url": "u", "title": "t", "start_index": "HERE", "end_index": 1}
    part = {"type": "output_text", "text": "a", "annotations": [citation]}
    fields: dict[str, Any] = {
        "context_management[0].compact_threshold": {"context_management": [compaction]},
        "client_metadata.a": {"client_metadata": {"a": "HERE"}},
        "tools[0].parameters.properties.a.maximum": {"tools": [tool]},
        "text.format.schema.properties.a.maximum": {"text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}},
        "input[0].content[0].annotations[0].start_index": {"input": [{"role": "assistant", "content": [part]}]},
    }
    body = {"model": "mock", "input": "Hi", **fields.get(place, {place: "HERE"})}
    return json.dumps(body).replace('"HERE"', number).encode()


async def refused(gateway: GatewayUnderTest, body: bytes, path: str = "/v1/responses") -> Error:
    status, answer = await gateway.post(body, path)
    assert status == 400, answer
    error: Error = answer["error"]
    assert error["type"] == "invalid_request_error"
    return error


@pytest.mark.parametrize("place", [*INTEGERS, *FLOATS, *ELSEWHERE])
async def test_a_number_that_cannot_be_read_is_a_400_that_names_its_field(
    gateway: GatewayUnderTest, engine: MockEngine, place: str
) -> None:
    for number in OUT_OF_RANGE:
        error = await refused(gateway, body_with(place, number))
        assert (error["param"], error["message"]) == (place, f"Invalid `{place}`: the number is out of range.")
    for number in NO_JSON:
        error = await refused(gateway, body_with(place, number))
        assert error["param"] == place
        assert f"JSON has no number {number.removeprefix('-')}. Send null, or leave it out." in error["message"]
    assert engine.requests == []


@pytest.mark.parametrize("place", INTEGERS)
async def test_an_integer_that_is_too_large_or_none_is_a_400_that_names_its_field(
    gateway: GatewayUnderTest, engine: MockEngine, place: str
) -> None:
    for number in LARGE[1:] if place == "seed" else LARGE:
        error = await refused(gateway, body_with(place, number))
        assert (error["param"], error["code"]) == (place, "integer_above_max_value")
    for number in NO_INTEGERS:
        error = await refused(gateway, body_with(place, number))
        assert (error["param"], error["code"]) == (place, "invalid_type")
    error = await refused(gateway, body_with(place, "-9223372036854775809"))
    assert (error["param"], error["code"]) == (place, "integer_below_min_value")
    assert engine.requests == []


@pytest.mark.parametrize("place", FLOATS)
async def test_a_number_that_is_too_large_or_none_is_a_400_that_names_its_field(
    gateway: GatewayUnderTest, engine: MockEngine, place: str
) -> None:
    for number in [*LARGE[:-1], "1e308"]:
        error = await refused(gateway, body_with(place, number))
        assert (error["param"], error["code"]) == (place, "decimal_above_max_value")
    for number in ["true", '"1"', "[1]", "{}"]:
        error = await refused(gateway, body_with(place, number))
        assert (error["param"], error["code"]) == (place, "invalid_type")
    error = await refused(gateway, body_with(place, "-1e308"))
    assert (error["param"], error["code"]) == (place, "decimal_below_min_value")
    assert engine.requests == []


async def test_the_largest_numbers_reach_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create(max_output_tokens=2**53, max_tool_calls=2**53, seed=2**63 - 1)
    assert (response["max_output_tokens"], response["max_tool_calls"]) == (2**53, 2**53)
    assert (engine.last["max_tokens"], engine.last["seed"]) == (2**53, 2**63 - 1)
    await gateway.create(seed=-(2**63))
    assert engine.last["seed"] == -(2**63)


async def test_on_every_way_in_it_is_the_same_error(gateway: GatewayUnderTest) -> None:
    body = body_with("seed", "1e999")
    for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/chat/completions"):
        assert (await refused(gateway, body, path))["param"] == "seed"
    assert (await refused(gateway, b'{"metadata": {"a": 1e999}}', "/v1/conversations"))["param"] == "metadata.a"
    items = b'{"items": [{"role": "user", "content": "Hi", "odd": NaN}]}'
    assert (await refused(gateway, items, "/v1/conversations"))["param"] == "items[0].odd"
    async with connected(gateway) as socket:
        for number in ("1e999", "NaN"):
            await socket.connection.send_str('{"type": "response.create", ' + body_with("seed", number).decode()[1:])
            error = await socket.event()
            assert (error["status"], error["error"]["param"]) == (400, "seed")


async def test_a_number_that_is_not_in_a_field_is_a_400_too(gateway: GatewayUnderTest) -> None:
    for body in (b"1e999", b"NaN", b'{"seed": NaN, "top_p": NaN}', b'{"input": "%b", "seed": 1e999}' % (b"x" * 300_000)):
        error = await refused(gateway, body)
        assert (error["param"], error["code"]) == (None, "invalid_value")
    assert "is not JSON" in (await refused(gateway, b'{"seed": nan}'))["message"]


async def test_the_preface_of_http_2_is_a_400_that_says_what_is_spoken(gateway: GatewayUnderTest) -> None:
    answer = await sent(gateway, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (400, "invalid_http")
    assert error["message"] == "The request is not valid HTTP: this is HTTP/2, and only HTTP/1.1 is spoken here."


# ---- the parameters of lists, on both databases ----------------------------------------------------------------------


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def stored(request: pytest.FixtureRequest, engine: MockEngine, tmp_path: Path) -> AsyncIterator[GatewayUnderTest]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        with server.shared_database() as url:
            async with running_gateway(engine, store=url) as gateway:
                yield gateway
    else:
        async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}") as gateway:
            yield gateway


# Each could be read as a number that is allowed, or as none.
ODD = ["1e1", "1E1", "1.0", "%2B1", "%201", "1%20", "01", "1_0", "0x1", "%D9%A1", "null", "true"]


async def test_parameters_that_are_no_numbers_or_out_of_bounds_are_400s(stored: GatewayUnderTest) -> None:
    _, conversation = await stored.post({"items": [{"role": "user", "content": "Hi"}]}, "/v1/conversations")
    response = await Background(stored).made()
    lists = [f"/v1/conversations/{conversation['id']}/items", f"/v1/responses/{response['id']}/input_items"]
    wrong = ["0", "-1", "101", "1.5", "1e999", "NaN", "inf", "", "x", "2147483648", *ODD, *LARGE, "1" + "0" * 5000]
    for path in lists:
        for number in wrong:
            status, answer = await stored.get(f"{path}?limit={number}")
            assert (status, answer["error"]["param"]) == (400, "limit"), (path, number, answer)
        assert (await stored.get(f"{path}?limit=100"))[0] == 200
    path = f"/v1/responses/{response['id']}"
    for number in ["-1", "1.5", "1e999", "NaN", "", "x", *ODD, *LARGE, "1" + "0" * 5000]:
        for query in ("stream=true", "stream=false"):
            status, answer = await stored.get(f"{path}?{query}&starting_after={number}")
            assert (status, answer["error"]["param"]) == (400, "starting_after"), (number, answer)


@pytest.mark.parametrize("name", ["stream", "include_obfuscation"])
async def test_parameters_that_are_neither_true_nor_false_are_400s(gateway: GatewayUnderTest, name: str) -> None:
    path = f"/v1/responses/{(await Background(gateway).made())['id']}"
    for value in ("1", "0", "True", "FALSE", "yes", "null", ""):
        status, answer = await gateway.get(f"{path}?{name}={value}")
        assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, name, "invalid_type"), value
        assert answer["error"]["message"] == f"Invalid type for `{name}`: it must be true or false."
    assert (await gateway.get(f"{path}?{name}=false"))[0] == 200


async def test_the_largest_parameters_are_taken(stored: GatewayUnderTest) -> None:
    background = Background(stored)
    body = {"max_output_tokens": 2**53, "max_tool_calls": 2**53, "seed": 2**63 - 1}
    response = await background.made(**body)
    assert response["max_output_tokens"] == 2**53
    for number in (2**31, 2**32, 2**53):
        assert await background.follow(response["id"], number) == []
    assert (await background.get(response["id"]))["max_tool_calls"] == 2**53
