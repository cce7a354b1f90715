"""Containers without a gateway: expiry, room, leftovers, and runs that are stopped."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from support.kernels import ScriptedKernels, prints

from antiphon.errors import InvalidRequest, RateLimited, StoreUnavailable
from antiphon.ids import new_id
from antiphon.sandbox.containers.container_files import ContainerExpired, ContainerLimits
from antiphon.sandbox.containers.containers import Containers
from antiphon.sandbox.containers.folder import ContainerFolder, remove_leftovers
from antiphon.sandbox.runs import MOST_FILES
from antiphon.store.files.records import FileRecord

MINUTE = 60


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class NoUploads:
    async def find(self, owner: str, ids: Collection[str]) -> Mapping[str, FileRecord]:
        return {}

    async def read(self, record: FileRecord) -> AsyncIterator[bytes]:
        yield b""


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kernels() -> ScriptedKernels:
    return ScriptedKernels()


@pytest_asyncio.fixture
async def containers(kernels: ScriptedKernels, clock: Clock, tmp_path: Path) -> AsyncIterator[Containers]:
    made = Containers(kernels, ContainerLimits(most=3, most_per_owner=2), tmp_path, new_id, NoUploads(), now=clock)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def roomy(kernels: ScriptedKernels, tmp_path: Path) -> AsyncIterator[Containers]:
    """Each has room for a megabyte."""
    made = Containers(kernels, ContainerLimits(disk=1024 * 1024), tmp_path, new_id, NoUploads())
    yield made
    await made.close()


async def test_a_container_expires_after_its_idle_minutes_and_leaves_nothing(
    containers: Containers, kernels: ScriptedKernels, clock: Clock
) -> None:
    made = await containers.create("ada", "mine", minutes=2)
    await containers.run(made, "x")
    clock.now += 2 * MINUTE - 1
    assert containers.get("ada", made.id) is made
    await containers.run(made, "x")
    clock.now += 2 * MINUTE - 1
    assert containers.sweep() == 0
    clock.now += 1
    assert containers.get("ada", made.id) is None
    assert containers.seen("ada", made.id) is made
    assert made.has_expired
    await kernels.started[0].closed.wait()
    with pytest.raises(ContainerExpired):
        await containers.run(made, "x")


async def test_a_container_that_runs_code_does_not_expire(
    containers: Containers, kernels: ScriptedKernels, clock: Clock
) -> None:
    made = await containers.create("ada", "mine")
    kernels.waits = asyncio.Event()
    running = asyncio.create_task(containers.run(made, "loop()"))
    await kernels.waits.wait()
    clock.now += 60 * MINUTE
    assert containers.sweep() == 0
    running.cancel()
    await asyncio.wait({running})
    # Its Python was ended, its files are there.
    assert not kernels.started[0].is_alive
    kernels.waits = None
    await containers.run(made, "x")
    assert len(kernels.started) == 2


async def test_a_container_that_a_request_made_gives_way_to_the_next(containers: Containers) -> None:
    first = await containers.create("ada", "auto", is_auto=True)
    kept = await containers.create("ada", "mine")
    second = await containers.create("ada", "auto", is_auto=True)
    assert first.has_expired
    assert containers.of_owner("ada") == [kept, second]
    await containers.create("ada", "also mine")
    assert second.has_expired
    with pytest.raises(RateLimited):
        await containers.create("ada", "too many")
    await containers.create("ben", "his")
    with pytest.raises(RateLimited):
        await containers.create("ben", "too many in all")


async def test_an_id_that_was_promised_is_made_once(containers: Containers) -> None:
    made = await asyncio.gather(*(containers.create("ada", "auto", id="cntr_1", is_auto=True) for _ in range(4)))
    assert {each.id for each in made} == {"cntr_1"}
    assert len(set(map(id, made))) == 1


async def test_a_key_that_gets_a_name_keeps_its_containers(containers: Containers) -> None:
    made = await containers.create("hash", "mine")
    containers.current_owner = lambda owner: "ada" if owner == "hash" else owner
    assert containers.get("ada", made.id) is made
    # A response that began before still has the old name.
    assert containers.get("hash", made.id) is made
    assert containers.get("ben", made.id) is None


async def test_files_that_a_run_changes_keep_their_ids(containers: Containers, kernels: ScriptedKernels) -> None:
    made = await containers.create("ada", "mine")
    kernels.scripts = {"a": prints("", a__txt="1", b__txt="1"), "b": prints("", a__txt="22")}
    first = await containers.run(made, "a")
    second = await containers.run(made, "b")
    third = await containers.run(made, "nothing")
    assert [file.name for file in first.written] == ["a.txt", "b.txt"]
    assert [(file.name, file.size) for file in second.written] == [("a.txt", 2)]
    assert second.written[0].id == next(file.id for file in first.files if file.name == "a.txt")
    assert (third.written, len(third.files)) == ([], 2)


async def test_a_container_is_deleted_while_it_runs_code(containers: Containers, kernels: ScriptedKernels) -> None:
    made = await containers.create("ada", "mine")
    kernels.waits = asyncio.Event()
    running = asyncio.create_task(containers.run(made, "loop()"))
    await kernels.waits.wait()
    assert await containers.delete("ada", made.id)
    assert not kernels.started[0].is_alive
    running.cancel()
    await asyncio.wait({running})
    assert containers.seen("ada", made.id) is None


async def test_a_container_whose_folder_is_gone_has_expired(containers: Containers) -> None:
    made = await containers.create("ada", "mine")
    made.folder.data.rmdir()
    with pytest.raises(ContainerExpired):
        await containers.run(made, "x")
    assert made.has_expired
    assert containers.get("ada", made.id) is None


async def test_a_slow_upload_does_not_keep_code_from_running(containers: Containers) -> None:
    made = await containers.create("ada", "mine")
    may_end = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"a"
        await may_end.wait()
        yield b"b"

    adding = asyncio.create_task(containers.add(made, "a.txt", slow()))
    assert (await containers.run(made, "x")).files == []
    may_end.set()
    assert (await adding).size == 2


async def test_uploads_that_arrive_at_once_share_the_room(roomy: Containers) -> None:
    made = await roomy.create("ada", "mine")
    begun = asyncio.Barrier(3)

    async def half() -> AsyncIterator[bytes]:
        await begun.wait()
        for _ in range(6):
            yield b"x" * 100_000

    added = await asyncio.gather(*(roomy.add(made, f"{n}.bin", half()) for n in range(3)), return_exceptions=True)
    assert sorted(getattr(each, "code", "added") for each in added) == ["added", "container_full", "container_full"]
    assert made.arriving == 0
    assert len(names_in(made.folder.data)) == 1


async def test_what_was_placed_while_an_upload_arrived_is_counted(roomy: Containers) -> None:
    made = await roomy.create("ada", "mine")
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        await may_end.wait()
        yield b"x" * 600_000

    adding = asyncio.create_task(roomy.add(made, "slow.bin", slow()))
    await begun.wait()
    await roomy.add(made, "quick.bin", pieces(b"x" * 600_000))
    may_end.set()
    with pytest.raises(InvalidRequest) as refused:
        await adding
    assert refused.value.code == "container_full"
    # What takes the place of another file has its room.
    await roomy.add(made, "quick.bin", pieces(b"y" * 900_000))
    assert names_in(made.folder.data) == ["quick.bin"]


async def test_a_container_with_too_many_files_takes_no_more(roomy: Containers) -> None:
    made = await roomy.create("ada", "mine")
    for number in range(MOST_FILES):
        (made.folder.data / str(number)).touch()
    with pytest.raises(InvalidRequest) as refused:
        await roomy.add(made, "more", pieces(b""))
    assert refused.value.code == "container_full"
    assert (await roomy.add(made, "7", pieces(b"x"))).size == 1


async def test_a_disk_that_is_almost_full_is_not_filled(roomy: Containers) -> None:
    made = await roomy.create("ada", "mine")
    made.folder = ContainerFolder(made.folder.data.parent, keep_free=2**60)
    with pytest.raises(StoreUnavailable, match="almost full"):
        await roomy.add(made, "a.bin", pieces(b"x"))
    assert names_in(made.folder.data) == names_in(made.folder.data.parent / "incoming") == []


async def test_the_output_of_code_is_shown_though_its_image_has_no_room(roomy: Containers, kernels: ScriptedKernels) -> None:
    made = await roomy.create("ada", "mine")
    kernels.scripts = {"plot": prints("drawn", b"x" * 2_000_000)}
    ran = await roomy.run(made, "plot")
    assert (ran.result.logs, len(ran.result.images), ran.written) == ("drawn", 1, [])


async def test_leftovers_of_a_gateway_that_was_killed_are_removed_and_no_others(containers: Containers, tmp_path: Path) -> None:
    await containers.create("ada", "mine")
    left = tmp_path / "gateway-dead"
    (left / "cntr_1" / "data").mkdir(parents=True)
    (left / "lock").touch()
    assert remove_leftovers(tmp_path) == 1
    assert not left.exists()
    assert containers.all[0].folder.data.is_dir()


async def test_nothing_is_left_after_the_end(kernels: ScriptedKernels, tmp_path: Path) -> None:
    containers = Containers(kernels, ContainerLimits(), tmp_path, new_id, NoUploads())
    made = await containers.create("ada", "mine")
    await containers.run(made, "x")
    await containers.close()
    assert names_in(tmp_path) == []
    assert not kernels.started[0].is_alive
