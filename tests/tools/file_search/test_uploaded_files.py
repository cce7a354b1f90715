"""file_search over files that were uploaded: from the upload to the citation, with every part real but the model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from agents import Agent, FileSearchTool, OpenAIConversationsSession, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI, NotFoundError
from openai.types import VectorStore
from openai.types.responses.response_output_text import AnnotationFileCitation
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.pdfs import make_pdf

SEARCHED = answer(call("file_search", '{"queries": ["How is the filter cleaned?"]}'), finish="tool_calls")
MANUAL = "The filter is cleaned with warm water, once a month."
DOCUMENTS = {
    "manual.pdf": make_pdf("The pump needs oil every year.", MANUAL),
    "manual.txt": f"The pump needs oil every year.\n\n{MANUAL}".encode(),
    "manual.md": f"# Manual\n\nThe pump needs oil every year.\n\n## Filter\n\n{MANUAL}".encode(),
}


@pytest_asyncio.fixture
async def gateway(engine: MockEngine, vector_url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=vector_url) as running:
        yield running


def client_of(gateway: GatewayUnderTest, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0)


async def make_store(client: AsyncOpenAI, name: str = "manual.txt", **attributes: Any) -> tuple[VectorStore, str]:
    """A vector store with one document, and the id of its file."""
    store = await client.vector_stores.create(name="manuals")
    file = await client.files.create(file=(name, DOCUMENTS[name]), purpose="assistants")
    added = await client.vector_stores.files.create_and_poll(
        file.id, vector_store_id=store.id, attributes=attributes, poll_interval_ms=20
    )
    assert (added.status, added.last_error) == ("completed", None)
    return store, file.id


def tool(*stores: VectorStore, **members: Any) -> Any:
    return {"type": "file_search", "vector_store_ids": [store.id for store in stores], **members}


@asynccontextmanager
async def two_keys(engine: MockEngine, url: str) -> AsyncIterator[tuple[AsyncOpenAI, AsyncOpenAI]]:
    keys = {"ada": ("key-of-ada",), "bob": ("key-of-bob",)}
    async with (
        running_gateway(engine, store=url, keys=keys) as gateway,
        client_of(gateway, "key-of-ada") as ada,
        client_of(gateway, "key-of-bob") as bob,
    ):
        yield ada, bob


def shown_to_model(engine: MockEngine) -> str:
    return "\n".join(str(message["content"]) for message in engine.last["messages"] if message["role"] == "tool")


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_document_is_uploaded_searched_and_cited(gateway: GatewayUnderTest, engine: MockEngine, name: str) -> None:
    engine.will(SEARCHED, text("With warm water [1]."))
    async with client_of(gateway) as client:
        store, file_id = await make_store(client, name)
        response: Any = await client.responses.create(
            model="mock", input="How?", tools=[tool(store)], include=["file_search_call.results"]
        )
    assert MANUAL in shown_to_model(engine)
    searched, message = response.output
    assert searched.results[0].file_id == file_id
    assert MANUAL in searched.results[0].text
    assert 0 < searched.results[0].score <= 1
    (cited,) = message.content[0].annotations
    assert isinstance(cited, AnnotationFileCitation)
    assert (cited.file_id, cited.filename, cited.index) == (file_id, name, len("With warm water"))
    assert response.output_text == "With warm water."


async def test_every_database_is_searched(engine: MockEngine, every_vector_url: str) -> None:
    engine.will(SEARCHED, text("With warm water [1]."))
    async with running_gateway(engine, store=every_vector_url) as gateway, client_of(gateway) as client:
        store, file_id = await make_store(client, "manual.pdf", year=2026)
        filters = {"type": "eq", "key": "year", "value": 2026}
        response: Any = await client.responses.create(model="mock", input="How?", tools=[tool(store, filters=filters)])
    assert MANUAL in shown_to_model(engine)
    (cited,) = response.output[-1].content[0].annotations
    assert (cited.file_id, cited.filename, cited.index) == (file_id, "manual.pdf", len("With warm water"))


async def test_an_agent_searches_in_a_conversation(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    again = answer(call("file_search", '{"queries": ["pump oil"]}', id="b"), finish="tool_calls")
    engine.will(SEARCHED, text("With warm water [1]."), again, text("It needs oil [1]."))
    async with client_of(gateway) as client:
        store, file_id = await make_store(client, "manual.pdf")
        model = OpenAIResponsesModel(model="mock", openai_client=client)
        searches = FileSearchTool(vector_store_ids=[store.id], include_search_results=True)
        agent = Agent(name="Librarian", tools=[searches], model=model)
        session = OpenAIConversationsSession(openai_client=client)
        quiet = RunConfig(tracing_disabled=True)
        first = await Runner.run(agent, "How is the filter cleaned?", session=session, run_config=quiet)
        second: Any = Runner.run_streamed(agent, "And the pump?", session=session, run_config=quiet)
        assert [event async for event in second.stream_events()]
    assert (first.final_output, second.final_output) == ("With warm water.", "It needs oil.")
    cited = second.new_items[-1].raw_item.content[0].annotations
    assert [each.file_id for each in cited] == [file_id]
    roles = [message["role"] for message in engine.last["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]


async def test_files_are_left_out_by_their_attributes(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCHED, text("Nobody knows."), SEARCHED, text("With warm water."))
    async with client_of(gateway) as client:
        store, _ = await make_store(client, year=2020)
        for year, found in ((2021, False), (2019, True)):
            filters = {"type": "gt", "key": "year", "value": year}
            await client.responses.create(model="mock", input="How?", tools=[tool(store, filters=filters)])
            assert (MANUAL in shown_to_model(engine)) == found


async def test_a_file_that_was_deleted_is_not_found(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCHED, text("Nobody knows [1]."))
    async with client_of(gateway) as client:
        store, file_id = await make_store(client)
        await client.files.delete(file_id)
        response = await client.responses.create(model="mock", input="How?", tools=[tool(store)])
    assert shown_to_model(engine).startswith("Nothing was found")
    assert response.output_text == "Nobody knows [1]."


async def test_the_vector_stores_of_another_key_are_not_there(engine: MockEngine, vector_url: str) -> None:
    async with two_keys(engine, vector_url) as (ada, bob):
        store, _ = await make_store(ada)
        own, _ = await make_store(bob)
        refusals = []
        for ids in ([store.id], [own.id, store.id], ["vs_none"]):
            for stream in (False, True):
                asked: Any = {"type": "file_search", "vector_store_ids": ids}
                with pytest.raises(NotFoundError) as refused:
                    await bob.responses.create(model="mock", input="How?", tools=[asked], stream=stream)
                assert refused.value.param == "tools[0].vector_store_ids"
                refusals.append(refused.value.message.replace(store.id, "ID").replace("vs_none", "ID"))
    assert len(set(refusals)) == 1, "it is said in the words of one that does not exist"
    assert engine.requests == []


async def test_a_vector_store_that_is_deleted_before_the_search_fails_the_call_and_not_the_response(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async with client_of(gateway) as client:
        store, _ = await make_store(client)

        async def delete_and_search(write: Any) -> None:
            await client.vector_stores.delete(store.id)
            await write(SEARCHED)

        engine.will(delete_and_search, text("I cannot search."))
        response = await client.responses.create(model="mock", input="How?", tools=[tool(store)])
    assert [(item.type, item.status) for item in response.output if item.type == "file_search_call"] == [
        ("file_search_call", "failed")
    ]
    assert (response.status, response.output_text) == ("completed", "I cannot search.")


async def test_a_search_in_the_background_is_that_of_its_owner(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCHED, text("With warm water [1]."))
    async with client_of(gateway) as client:
        store, file_id = await make_store(client)
        response = await Background(gateway).made("How?", tools=[tool(store)])
    assert response["output"][-1]["content"][0]["annotations"][0]["file_id"] == file_id
