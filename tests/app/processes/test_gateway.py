"""A gateway with two worker processes, as clients and operators see it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from support.commands import ANTIPHON, bare_environment, served
from support.engine import MockEngine, Writer, chunk, text
from support.gateway import started
from support.streams import check_stream, parse
from support.ways_in import until
from support.worker_gateway import WorkerGateway, described, worker_gateway

from antiphon.app import running_gateways

pytestmark = [pytest.mark.timeout(180), pytest.mark.skipif(sys.platform != "linux", reason="one port for several processes")]


async def ask(client: aiohttp.ClientSession, **fields: Any) -> tuple[int, dict[str, Any]]:
    async with client.post("/v1/responses", json={"input": "Hi", **fields}) as answer:
        return answer.status, await answer.json()


async def get(client: aiohttp.ClientSession, path: str) -> Any:
    async with client.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


class Held:
    """An answer whose first piece comes at once, and the rest when the test lets it proceed."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.proceed = asyncio.Event()

    async def __call__(self, write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": "one"}))
        self.asked.set()
        await self.proceed.wait()
        await write(text(" two"))


def upstream(engine: MockEngine) -> str:
    return f'upstream = "{engine.url}"\n'


# ---- one gateway for several tests, each of which leaves it as it was ---------------------------------------------------


IN_MODULE = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_engine() -> AsyncIterator[MockEngine]:
    async with started(MockEngine()) as engine:
        yield engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(shared_engine: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerGateway]:
    async with worker_gateway(tmp_path_factory.mktemp("shared"), upstream(shared_engine)) as gateway:
        yield gateway


@IN_MODULE
async def test_rows_of_both_are_shown_live(shared: WorkerGateway) -> None:
    first, second = await shared.both()
    watching = await shared.client(0)
    async with watching.get("/inspector/live") as live:
        # It has begun to listen to the other one, too, once that one's first sign of life has been answered.
        _, here = await ask(first)
        await live.content.readuntil(here["id"].encode())
        _, there = await ask(second)
        await live.content.readuntil(there["id"].encode())


@IN_MODULE
async def test_a_background_response_is_followed_in_both(shared: WorkerGateway, shared_engine: MockEngine) -> None:
    held = Held()
    shared_engine.will(held)
    clients = await shared.both()
    _, queued = await ask(clients[0], background=True)
    params = {"stream": "true"}
    streams = [await client.get(f"/v1/responses/{queued['id']}", params=params) for client in clients]
    for stream in streams:
        await stream.content.readuntil(b"output_text.delta")
    held.proceed.set()
    for stream in streams:
        assert b"response.completed" in await stream.read()


@IN_MODULE
async def test_of_several_gateways_the_one_of_the_local_file_is_restarted(shared: WorkerGateway, tmp_path: Path) -> None:
    pids = await shared.ready()
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder, port in ((here, shared.url.rpartition(":")[2]), (elsewhere, "1")):
        folder.mkdir()
        (folder / "antiphon.toml").write_text(f"port = {port}\n", encoding="utf-8")
    announcements = shared.folder / "data" / running_gateways.FOLDER
    with running_gateways.announce("http://127.0.0.1:2", "1.0", announcements):
        refused = await shared.run("restart", folder=elsewhere)
        done = await shared.run("restart", folder=here)
    assert refused.returncode == 2
    assert "several gateways run here, and none at port 1 of the settings: choose one with --url." in refused.stderr
    assert (done.returncode, done.stdout.count("replaced")) == (0, 2), done.stderr
    assert f"2 gateways are running. This is about {shared.url}" in done.stderr
    await shared.ready(without=tuple(pids))


@IN_MODULE
async def test_a_restart_does_not_change_when_the_gateway_was_started(shared: WorkerGateway) -> None:
    pids = await shared.ready()
    before = await described(await shared.client())
    began = time.time()
    assert (await shared.run("restart")).returncode == 0
    await shared.ready(without=tuple(pids))
    after = await described(await shared.client())
    assert after["started"] == before["started"] <= min(each["started"] for each in before["workers"]) < began
    assert [each["started"] >= began for each in after["workers"]] == [True, True]
    assert [each["pid"] for each in after["workers"]] != pids


@IN_MODULE
async def test_a_restart_with_bad_settings_changes_nothing(shared: WorkerGateway, shared_engine: MockEngine) -> None:
    pids = await shared.ready()
    shared.write("retries = -1")
    done = await shared.run("restart")
    shared.write(upstream(shared_engine))
    assert done.returncode == 1
    assert "not restarted: retries must be" in done.stderr
    assert await shared.ready() == pids


@IN_MODULE
async def test_what_a_worker_starts_gets_none_of_its_sockets(shared: WorkerGateway) -> None:
    for pid in await shared.ready():
        assert len(socket_flags(pid)) > 2
        # While it starts a process, there is for a moment one that is made for that process.
        await until(partial(every_socket_is_its_own, pid))


# ---- a gateway for each test -------------------------------------------------------------------------------------------


async def test_both_answer_and_know_of_each_other(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        first, second = await gateway.both()
        _, one = await ask(first)
        _, two = await ask(second, previous_response_id=one["id"])
        assert two["status"] == "completed"

        # Metrics and the inspector are those of both, whichever is asked.
        for client in (first, second):
            async with client.get("/metrics") as answer:
                counted = re.findall(r'antiphon_http_requests_total\{.*"/v1/responses".*\} (.*)', await answer.text())
            assert counted == ["2.0"]
            rows = (await get(client, "/inspector/requests"))["data"]
            assert [(row["number"], row["id"]) for row in rows] == [(2, two["id"]), (1, one["id"])]
            page = await get(client, "/inspector/requests?limit=1")
            assert ([row["number"] for row in page["data"]], page["has_more"]) == ([2], True)
            assert [(await get(client, f"/inspector/requests/{number}"))["row"]["number"] for number in (1, 2)] == [1, 2]
            assert (await get(client, "/inspector/status"))["recording"]["requests"] == 2
        async with first.get("/inspector/requests/3") as answer:
            assert answer.status == 404

        # For the other commands it is one gateway.
        found = await described(first)
        assert found["pid"] == gateway.process.pid
        listed = await gateway.run("ps")
        assert f"process {gateway.process.pid}, 2 workers (" in listed.stdout

        async with first.delete("/inspector/requests") as answer:
            assert answer.status == 204
        assert (await get(second, "/inspector/requests"))["data"] == []


async def test_a_killed_worker_is_replaced(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        pids = await gateway.ready()
        os.kill(pids[1], signal.SIGKILL)
        died = await gateway.logged("worker died")
        assert (died["worker"], died["reason"]) == (1, "it was killed by signal 9")
        # Connections that wait for it are answered by the next one.
        clients = [await gateway.client() for _ in range(20)]
        assert [(await ask(client))[0] for client in clients] == [200] * 20
        await gateway.ready(without=(pids[1],))


async def test_connections_of_a_worker_that_cannot_start_again_are_accepted_by_the_other(
    engine: MockEngine, tmp_path: Path
) -> None:
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        pids = await gateway.ready()
        # Of the connections that come now, some wait for a process that does not accept them any more.
        os.kill(pids[1], signal.SIGSTOP)
        waiting = [asyncio.create_task(answered_by(gateway)) for _ in range(20)]
        await until(lambda: sum(task.done() for task in waiting) + unaccepted(gateway) == 20)
        assert unaccepted(gateway) > 0
        gateway.write("retries = -1")
        os.kill(pids[1], signal.SIGKILL)
        assert (await gateway.logged("worker died"))["reason"] == "it was killed by signal 9"
        async with asyncio.timeout(60):
            assert [await task for task in waiting] == [0] * 20
            assert [await answered_by(gateway) for _ in range(20)] == [0] * 20
            # Each of its successors dies at its start.
            assert "retries must be" in (await gateway.logged("worker died"))["reason"]
            assert [await answered_by(gateway) for _ in range(20)] == [0] * 20
        gateway.write(upstream(engine))
        await gateway.ready(without=(pids[1],))
        # Once it serves, its connections are its own again.
        workers = [await answered_by(gateway) for _ in range(200)]
        assert 60 <= sum(workers) <= 140


async def answered_by(gateway: WorkerGateway) -> int:
    """The worker that accepts a new connection."""
    async with aiohttp.ClientSession(gateway.url) as client:
        return int((await described(client))["worker"])


def unaccepted(gateway: WorkerGateway) -> int:
    """How many connections wait to be accepted."""
    return sum(waiting_at(gateway))


def waiting_at(gateway: WorkerGateway) -> list[int]:
    """For each socket that listens at its port, how many connections wait there."""
    port = int(gateway.url.rpartition(":")[2])
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # They are in the place where others have the bytes that wait to be read.
    return [int(each[4].partition(":")[2], 16) for each in sockets if each[1].endswith(f":{port:04X}") and each[3] == "0A"]


async def test_new_settings_are_those_of_all_workers_and_bad_ones_of_none(engine: MockEngine, tmp_path: Path) -> None:
    base = upstream(engine)
    async with worker_gateway(tmp_path, base + 'admin_key = "one"') as gateway:
        first, second = await gateway.both("one")
        gateway.write(base + 'admin_key = "two"\nretries = -1')
        gateway.hang_up()
        assert "retries" in (await gateway.logged("settings not reloaded"))["reason"]
        assert [(await ask(client))[0] for client in (first, second)] == [200, 200]
        gateway.write(base + 'admin_key = "two"')
        gateway.hang_up()
        assert {(await gateway.logged("settings reloaded"))["worker"] for _ in range(2)} == {0, 1}
        assert [(await ask(client))[0] for client in (first, second)] == [401, 401]


async def test_a_restart_loses_no_stream(engine: MockEngine, tmp_path: Path) -> None:
    held = Held()
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        clients, pids = await gateway.both(), await gateway.ready()
        engine.will(held, held)
        streams = [await client.post("/v1/responses", json={"input": "Hi", "stream": True}) for client in clients]
        for stream in streams:
            await stream.content.readuntil(b"output_text.delta")
        restarting = asyncio.create_task(gateway.run("restart"))
        # The new process of the first slot answers while the old one still has its stream.
        assert (await gateway.logged("stopping"))["worker"] == 0
        assert (await ask(await gateway.client()))[0] == 200
        held.proceed.set()
        for stream in streams:
            # The beginning has been read already.
            assert b"response.completed" in await stream.read()
        done = await restarting
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"worker 0: replaced, now process \d+\nworker 1: replaced, now process \d+\n", done.stdout)
        await gateway.ready(without=tuple(pids))
        # What the old processes have counted is not lost.
        async with (await gateway.client()).get("/metrics") as answer:
            assert 'route="/v1/responses",status="200"} 3.0' in await answer.text()


@pytest.mark.parametrize("limit", ["key_responses", "engine_requests"])
async def test_limits_count_over_both(engine: MockEngine, tmp_path: Path, limit: str) -> None:
    held = Held()
    engine.will(held)
    async with worker_gateway(tmp_path, upstream(engine) + f"{limit} = 1\nengine_queue = 0") as gateway:
        first, second = await gateway.both()
        running = asyncio.create_task(ask(first))
        await held.asked.wait()
        status, refused = await ask(second)
        assert status == (429 if limit == "key_responses" else 503), refused
        assert "Try again" in refused["error"]["message"]
        held.proceed.set()
        assert (await running)[0] == 200
        assert (await ask(second))[0] == 200


async def test_requests_of_a_minute_count_over_both(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, upstream(engine) + "key_requests_per_minute = 2") as gateway:
        first, second = await gateway.both()
        async with first.post("/v1/responses", json={"input": "Hi"}) as answer:
            assert answer.headers["x-ratelimit-remaining-requests"] == "1"
        assert [(await ask(client))[0] for client in (second, first)] == [200, 429]


async def test_places_of_a_worker_that_dies_are_free_again(engine: MockEngine, tmp_path: Path) -> None:
    held = Held()
    engine.will(held)
    async with worker_gateway(tmp_path, upstream(engine) + "key_responses = 1") as gateway:
        first, second = await gateway.both()
        pids = await gateway.ready()
        running = asyncio.create_task(ask(first))
        await held.asked.wait()
        os.kill(pids[0], signal.SIGKILL)
        await gateway.logged("worker died")
        with pytest.raises(aiohttp.ClientError):
            await running
        assert (await ask(second))[0] == 200


def every_socket_is_its_own(pid: int) -> bool:
    return all(flags & os.O_CLOEXEC for flags in socket_flags(pid))


def socket_flags(pid: int) -> list[int]:
    """Of the sockets that are open; one that is closed meanwhile is not counted."""
    flags = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(file).startswith("socket:"):
                info = Path(f"/proc/{pid}/fdinfo/{file.name}").read_text()
                flags.append(int(info.split("flags:\t")[1].split()[0], 8))
    return flags


async def test_workers_end_with_their_supervisor(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        watches = [os.pidfd_open(pid) for pid in await gateway.ready()]
        gateway.process.kill()
        loop = asyncio.get_running_loop()
        for watch in watches:
            ended = asyncio.Event()
            loop.add_reader(watch, ended.set)
            async with asyncio.timeout(60):
                await ended.wait()
            loop.remove_reader(watch)
            os.close(watch)


async def test_nothing_waits_at_the_port_of_a_gateway_whose_supervisor_was_killed(engine: MockEngine, tmp_path: Path) -> None:
    held = Held()
    engine.will(held)
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        first, _ = await gateway.both()
        async with first.post("/v1/responses", json={"input": "Hi", "stream": True}) as stream:
            await held.asked.wait()
            gateway.process.kill()
            # Each process has the sockets of all. They are closed although one of them is still busy.
            await until(lambda: waiting_at(gateway) == [])
            held.proceed.set()
            assert b"response.completed" in await stream.read()


async def test_a_stopped_gateway_finishes_its_streams(engine: MockEngine, tmp_path: Path) -> None:
    held = Held()
    engine.will(held)
    async with worker_gateway(tmp_path, upstream(engine)) as gateway:
        first, _ = await gateway.both()
        async with first.post("/v1/responses", json={"input": "Hi", "stream": True}) as stream:
            await held.asked.wait()
            gateway.process.terminate()
            await gateway.logged("stopping")
            held.proceed.set()
            events = parse(await stream.read())
            assert events[-1]["type"] == "response.completed"
            check_stream(events)
        assert await gateway.process.wait() == 0


def test_memory_cannot_be_shared() -> None:
    command = [*ANTIPHON, "--workers", "2", "--upstream", "http://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=bare_environment())
    assert done.returncode == 2
    assert "memory: cannot be shared by 2 worker processes" in done.stderr


def test_a_store_that_cannot_be_opened_is_reported_once() -> None:
    options = ["--workers", "2", "--port", "0", "--upstream", "http://127.0.0.1:1", "--store", "sqlite:/proc/none/x.db"]
    done = subprocess.run([*ANTIPHON, *options], capture_output=True, text=True, encoding="utf-8", env=bare_environment())
    assert done.returncode == 2
    assert "antiphon: cannot open /proc/none/x.db" in done.stderr
    assert done.stderr.count("cannot open") == 1


async def test_a_single_process_says_what_to_do_instead_of_a_restart(engine: MockEngine, tmp_path: Path) -> None:
    data = {"ANTIPHON_DATA_DIR": str(tmp_path)}
    async with served("--port", "0", "--upstream", engine.url, **data) as (process, _):
        run = partial(subprocess.run, capture_output=True, text=True, encoding="utf-8", env=bare_environment(**data))
        done = await asyncio.to_thread(run, [*ANTIPHON, "restart"])
    assert done.returncode == 2
    assert f"is a single process, which cannot be replaced without a pause. Stop it (kill {process.pid}" in done.stderr


async def test_it_can_be_stopped_as_soon_as_its_first_process_listens(engine: MockEngine, tmp_path: Path) -> None:
    own = {"ANTIPHON_DATA_DIR": str(tmp_path), "ANTIPHON_STORE": f"sqlite:{tmp_path / 'responses.db'}"}
    environment = bare_environment(**own, ANTIPHON_UPSTREAM=engine.url, ANTIPHON_PORT="0")
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, "serve", "--workers", "2", env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    output = b""
    while b"listening" not in output and (line := await process.stdout.readline()):
        output += line
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    output += await process.stdout.read()
    assert await process.wait() == 0, output.decode()
    assert b"Traceback" not in output
