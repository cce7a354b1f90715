"""A container lives in one worker process. Requests for it that reach another one are answered there."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest_asyncio
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest
from support.kernels import ScriptedKernels, interpreting

from antiphon.app.parts import WorkerPart
from antiphon.gateway.limits.places import AdmissionLimits
from antiphon.server.siblings import Sibling, Siblings

NAMED = {"type": "code_interpreter", "container": "…"}
AUTO = {"type": "code_interpreter", "container": {"type": "auto"}}


@pytest_asyncio.fixture
async def workers(engine: MockEngine, tmp_path: Path) -> AsyncIterator[tuple[GatewayUnderTest, GatewayUnderTest]]:
    """Two in one process, on one store."""
    async with AsyncExitStack() as stack:
        siblings = [Siblings(slot, supervisor=os.getpid()) for slot in range(2)]
        started: list[GatewayUnderTest] = []
        for slot, each in enumerate(siblings):
            options: dict[str, Any] = {"part": WorkerPart(each, slot=slot), "path": tmp_path / str(slot)}
            options["shares"] = started[0].gateway.store if started else None
            started.append(await stack.enter_async_context(interpreting(engine, ScriptedKernels(), tmp_path, **options)))
            siblings[1 - slot].others = (Sibling(slot, os.getpid(), str(tmp_path / str(slot))),)
        yield started[0], started[1]


def coded(number: int) -> Any:
    return answer(call("python", f'{{"code": "{number}"}}', id=f"call_{number}"), finish="tool_calls")


async def made(gateway: GatewayUnderTest, name: str) -> str:
    status, container = await gateway.post({"name": name}, "/v1/containers")
    assert status == 200, container
    id: str = container["id"]
    return id


async def test_every_process_has_all_of_them(workers: tuple[GatewayUnderTest, GatewayUnderTest]) -> None:
    first, second = workers
    here, there = await made(first, "here"), await made(second, "there")
    assert (here[-2:], there[-2:]) == ("00", "01")
    for each in workers:
        _, listed = await each.get("/v1/containers?order=asc")
        assert [container["id"] for container in listed["data"]] == [here, there]
        _, page = await each.get("/v1/containers?limit=1&order=asc")
        assert ([container["id"] for container in page["data"]], page["has_more"]) == ([here], True)
        _, after = await each.get(f"/v1/containers?order=asc&after={here}")
        assert [container["id"] for container in after["data"]] == [there]
        _, shown = await each.get("/inspector/stored/containers")
        assert [container["id"] for container in shown["data"]] == [there, here]
        for id, name in ((here, "here"), (there, "there")):
            assert (await each.get(f"/v1/containers/{id}"))[1]["name"] == name
    assert (await first.get(f"/v1/containers/{there}", method="DELETE"))[0] == 200
    assert (await second.get(f"/v1/containers/{there}"))[1]["error"]["code"] == "container_not_found"


async def test_files_come_and_go_through_another_process(workers: tuple[GatewayUnderTest, GatewayUnderTest]) -> None:
    first, second = workers
    there = await made(second, "there")
    form = aiohttp.FormData()
    form.add_field("file", b"1,2,3\n" * 100_000, filename="numbers.csv")
    async with first.client.post(f"{first.url}/v1/containers/{there}/files", data=form) as answer:
        assert answer.status == 200, await answer.text()
        file = msgspec.json.decode(await answer.read())
    async with first.client.get(f"{first.url}/v1/containers/{there}/files/{file['id']}/content") as answer:
        assert await answer.read() == b"1,2,3\n" * 100_000


async def test_a_response_runs_where_its_container_is(
    workers: tuple[GatewayUnderTest, GatewayUnderTest], engine: MockEngine
) -> None:
    first, second = workers
    there = await made(second, "there")
    engine.will(coded(1), text("Done"))
    status, response = await first.post({"input": "Hi", "tools": [NAMED | {"container": there}]})
    assert (status, response["status"]) == (200, "completed"), response
    assert response["output"][0]["container_id"] == there


async def test_a_conversation_keeps_its_container_whichever_process_it_reaches(
    workers: tuple[GatewayUnderTest, GatewayUnderTest], engine: MockEngine
) -> None:
    first, second = workers
    engine.will(coded(1), text("One"), coded(2), text("Two"))
    _, one = await second.post({"input": "Hi", "tools": [AUTO]})
    _, two = await first.post({"input": "More", "tools": [AUTO], "previous_response_id": one["id"]})
    assert two["output"][0]["container_id"] == one["output"][0]["container_id"]


async def test_the_calls_that_a_client_sends_along_name_their_container(
    workers: tuple[GatewayUnderTest, GatewayUnderTest], engine: MockEngine
) -> None:
    first, second = workers
    there = await made(second, "there")
    engine.will(coded(1), text("Done"))
    earlier = {"type": "code_interpreter_call", "id": "ci_1", "container_id": there, "code": "1", "status": "completed"}
    items = [{"role": "user", "content": "Hi"}, earlier, {"role": "user", "content": "More"}]
    status, response = await first.post({"input": items, "tools": [AUTO]})
    assert (status, response["output"][0]["container_id"]) == (200, there), response


async def test_a_relayed_request_is_counted_once(
    workers: tuple[GatewayUnderTest, GatewayUnderTest], engine: MockEngine
) -> None:
    first, second = workers
    there = await made(second, "there")
    for each in workers:
        each.gateway.admission.change(AdmissionLimits(requests_per_minute=10))
    engine.will(coded(1), text("Done"))
    assert (await first.post({"input": "Hi", "tools": [NAMED | {"container": there}]}))[0] == 200
    remaining = [state.remaining for each in workers if (state := each.gateway.admission.owners.rate("")) is not None]
    assert remaining == [9, 10]


async def test_what_cannot_be_read_is_refused_where_it_comes(workers: tuple[GatewayUnderTest, GatewayUnderTest]) -> None:
    first, second = workers
    there = await made(second, "there")
    status, refused = await first.post({"input": 5, "tools": [NAMED | {"container": there}]})
    assert (status, refused["error"]["param"]) == (400, "input")
    wrong: list[dict[str, Any]] = [{"type": {}}, {"type": ["shell"]}, {"type": "shell", "environment": []}]
    for tool in [*wrong, NAMED | {"container": "cntr_zz"}]:
        status, refused = await first.post({"input": "Hi", "tools": [tool]})
        assert status == 400, refused
