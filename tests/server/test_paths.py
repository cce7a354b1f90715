"""The paths under which clients look for the API."""

from collections.abc import Mapping
from typing import ClassVar

import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.ways_in import until

from antiphon.core.protocols.responses.protocol import RESPONSES, ResponsesProtocol
from antiphon.server.paths import ProtocolPaths

PREFIXES = ["/v1", "", "/openai/v1", "/openai"]


@pytest.mark.usefixtures("without_embeddings")
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_every_prefix_serves_the_whole_api(gateway: GatewayUnderTest, prefix: str, slash: str) -> None:
    status, response = await gateway.post({"model": "mock", "input": "Hi"}, path=f"{prefix}/responses{slash}")
    assert (status, response["output_text"]) == (200, "Hello world")
    status, fetched = await gateway.get(f"{prefix}/responses/{response['id']}{slash}?api-version=2025-04-01-preview")
    assert (status, fetched["id"]) == (200, response["id"])
    status, items = await gateway.get(f"{prefix}/responses/{response['id']}/input_items{slash}")
    assert (status, len(items["data"])) == (200, 1)
    status, conversation = await gateway.post({}, path=f"{prefix}/conversations{slash}")
    assert (status, conversation["object"]) == (200, "conversation")
    status, listed = await gateway.get(f"{prefix}/models{slash}")
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["mock"])
    status, model = await gateway.get(f"{prefix}/models/mock{slash}")
    assert (status, model["id"]) == (200, "mock")


@pytest.mark.parametrize("prefix", [*PREFIXES, "/openai/deployments/mock"])
async def test_a_passed_through_request_reaches_the_engine_under_its_own_path(prefix: str) -> None:
    engine = MockEngine(paths={"/v1/embeddings": lambda body: {"echo": body}})
    await engine.start()
    async with running_gateway(engine) as gateway:
        body = {"model": "mock", "input": "x"}
        assert await gateway.post(body, path=f"{prefix}/embeddings?api-version=2024-10-21") == (200, {"echo": body})
        chat = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        async with gateway.client.post(f"{gateway.url}{prefix}/chat/completions/", json=chat) as answer:
            assert answer.status == 200
        assert engine.last == chat
    await engine.stop()


async def test_a_websocket_opens_under_every_prefix(gateway: GatewayUnderTest) -> None:
    for prefix in PREFIXES:
        async with gateway.client.ws_connect(f"{gateway.url}{prefix}/responses") as socket:
            await socket.send_json({"type": "response.create", "input": "Hi"})
            assert (await socket.receive_json())["type"] == "response.created"


async def test_the_deployment_is_the_model_of_a_request_that_names_none(engine: MockEngine) -> None:
    engine.lists("first", "second")
    async with running_gateway(engine) as gateway:
        path = "/openai/deployments/second/responses"
        for background in (False, True):
            asked = len(engine.requests)
            status, response = await gateway.post({"input": "Hi", "background": background}, path=path)
            assert (status, response["model"]) == (200, "second")
            await until(lambda: len(engine.requests) > asked)  # noqa: B023
            assert engine.last["model"] == "second"
        assert (await gateway.post({"input": "Hi", "model": "first"}, path=path))[1]["model"] == "first"
        status, answer = await gateway.post(b"{", path=path)
        assert (status, answer["error"]["code"]) == (400, "invalid_json")
        chat = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
        async with gateway.client.post(f"{gateway.url}/openai/deployments/second/chat/completions", json=chat) as answered:
            assert answered.status == 200
        assert engine.last["model"] == "second"


async def test_a_deployment_serves_all_that_belongs_to_responses(engine: MockEngine) -> None:
    engine.lists("first", "second")
    async with running_gateway(engine) as gateway:
        path = "/openai/deployments/second/responses"
        _, response = await gateway.post({"input": "Hi"}, path=path)
        status, fetched = await gateway.get(f"{path}/{response['id']}?api-version=2025-04-01-preview")
        assert (status, fetched["id"]) == (200, response["id"])
        assert (await gateway.get(f"{path}/{response['id']}/input_items/"))[0] == 200
        assert (await gateway.post({"input": "Hi"}, path=f"{path}/input_tokens"))[0] == 200
        assert engine.last["model"] == "second"
        # The path names the model that a compaction needs.
        assert (await gateway.post({"input": "Hi"}, path=f"{path}/compact"))[0] == 200
        assert engine.last["model"] == "second"
        async with gateway.client.ws_connect(gateway.url + path) as socket:
            await socket.send_json({"type": "response.create", "input": "Hi"})
            assert (await socket.receive_json())["response"]["model"] == "second"
        status, cancelled = await gateway.post(b"", path=f"{path}/{response['id']}/cancel")
        assert (status, cancelled["error"]["code"]) == (400, "not_a_background_response")
        assert (await gateway.get(f"{path}/{response['id']}", method="DELETE"))[0] == 200


@pytest.mark.usefixtures("without_embeddings")
async def test_azures_client_works_with_its_own_key_header(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("azure-key",)) as gateway:
        azure = AsyncAzureOpenAI(azure_endpoint=gateway.url, api_key="azure-key", api_version="2025-04-01-preview")
        async with azure:
            assert (await azure.responses.create(model="mock", input="Hi")).output_text == "Hello world"
            assert [model.id async for model in await azure.models.list()] == ["mock"]
        async with AsyncOpenAI(base_url=gateway.url + "/openai/v1/", api_key="azure-key") as client:
            assert (await client.responses.create(model="mock", input="Hi")).output_text == "Hello world"
        status, answer = await gateway.get("/v1/models", headers={"api-key": "another"})
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        assert (await gateway.get("/v1/models", headers={"api-key": "azure-key"}))[0] == 200


async def test_what_is_not_served_is_still_a_404(gateway: GatewayUnderTest) -> None:
    for path in ("/v2/responses", "/v1/v1/responses", "/openai/deployments/mock/conversations", "/nothing"):
        status, answer = await gateway.post({"input": "Hi"}, path=path)
        assert (status, answer["error"]["code"]) == (404, "not_found")


class Lines(ResponsesProtocol):
    paths: ClassVar[Mapping[str, str]] = {"/v1/lines": "POST", "/lines.txt": "POST"}
    own_headers = frozenset({"line-length"})


@pytest.mark.parametrize(
    ("path", "is_its_own"),
    [
        ("/v1/lines", True),
        ("/lines/", True),
        ("/openai/v1/lines/of/text", True),
        ("/openai/deployments/mock/lines", False),
        ("/lines.txt", True),
        ("/v1/lines.txt", False),
        ("/linesztxt", False),
        ("/v1/liness", False),
        ("/v1/responses", False),
        ("/", False),
    ],
)
def test_a_protocol_has_its_paths_and_all_below_them(path: str, is_its_own: bool) -> None:
    lines = Lines()
    paths = ProtocolPaths((RESPONSES, lines))
    assert paths.protocol_of(path, {}) is (lines if is_its_own else RESPONSES)
    assert paths.protocol_of(path, {"line-length": "80"}) is lines


def test_most_requests_go_to_the_paths_of_the_protocols() -> None:
    assert ProtocolPaths((RESPONSES,)).direct == {f"{prefix}/responses" for prefix in PREFIXES}
    more = ProtocolPaths((RESPONSES, Lines())).direct - ProtocolPaths((RESPONSES,)).direct
    assert more == {"/lines.txt", *(f"{prefix}/lines" for prefix in PREFIXES)}
