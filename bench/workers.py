"""How much several worker processes store: whole answers a second, p99 and CPU per answer, by workers, store and connections;
and the store alone. Every measurement is repeated by turns, and the medians are shown.

On a machine where nothing can be installed: `--build FOLDER` compiles the engine and the clients elsewhere, into static
programs, and `--programs FOLDER` uses them. PYTHONPATH names the source and a folder with the packages that it needs.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from antiphon.app.processes.store_writer import StoreWriter
from antiphon.ids import new_id
from antiphon.settings.settings import Settings
from antiphon.store import Store, open_store
from antiphon.store.account_records import Counts, UsageEntry, UsageKind
from antiphon.store.records import Record
from bench.native import CORES, Load, Measured, Programs, compiled
from bench.processes import (
    READY_WITHIN,
    BenchFailed,
    allow_many_descriptors,
    cpu_seconds,
    cpu_times,
    free_port,
    on_cores,
    running,
)
from bench.requests import Asked
from bench.subjects import ANTIPHON_CONF, OURS, Command, Place, Subject, started

# Where there are enough cores, the engine and the clients have one each, and the gateway or the store has the others.
ARE_MANY = len(CORES) >= 6
ENGINE_CORES = {CORES[-2]} if ARE_MANY else set(CORES)
CLIENT_CORES = {CORES[-1]} if ARE_MANY else set(CORES)
MEASURED_CORES = set(CORES[:-2]) if ARE_MANY else set(CORES)
# Requests that show how many there are in a second.
TRIAL = 1500
WARM = 200
# Of the file with which SQLite's processes share what they know of the log: how often it has changed, once for each commit.
# https://www.sqlite.org/walformat.html#the_wal_index_header
CHANGES = slice(8, 12)
# About what a commit writes, in bytes, and how many of them are timed.
COMMIT_BYTES = 32 * 1024
COMMITS = 500
CLOCK = 1_700_000_000


class Row(NamedTuple):
    """One measurement: what is measured, and what came out."""

    rate: float
    p50: float
    p99: float
    # Milliseconds for each answer or record, and those of the process that writes.
    cpu: float
    writer_cpu: float
    # None: they cannot be counted.
    records_per_commit: float | None


class Options(argparse.Namespace):
    seconds: float
    rounds: int
    workers: list[int]
    connections: list[str]
    stores: list[str]
    postgres: str | None
    programs: Path | None
    before: Path | None
    folder: Path | None
    build: Path | None
    put: list[str] | None


# ---- the gateway -----------------------------------------------------------------------------------------------------


def gateway(version: str, source: Path | None, workers: int, store: str) -> Subject:
    """`source`: the folder `src` of another version."""

    def command(place: Place) -> Command:
        conf = place.folder / "antiphon.toml"
        conf.write_text(ANTIPHON_CONF)
        words = [*OURS, "serve", "--config", str(conf), "--upstream", f"http://127.0.0.1:{place.engine}", "--dialect", "plain"]
        words += ["--port", str(place.port), "--store", store.format(folder=place.folder), "--workers", str(workers)]
        path = os.environ.get("PYTHONPATH", "")
        environment = {"PYTHONPATH": f"{source}{os.pathsep}{path}"} if source is not None else {}
        return Command(words, "/ready", environment)

    return Subject(f"{version} {workers}", "responses", command, MEASURED_CORES)


def changes(database: Path) -> int | None:
    with contextlib.suppress(OSError):
        return int.from_bytes(database.with_name(f"{database.name}-shm").read_bytes()[CHANGES], sys.byteorder)
    return None


def writer_of(pids: Sequence[int]) -> int | None:
    """Which of these processes is the one that writes."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if b"writer_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def await_workers(port: int, count: int) -> None:
    """The gateway is ready with its first worker, which would get all connections that are made before the others are there."""
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/inspector/engines", timeout=READY_WITHIN) as answer:
            gateway = msgspec.json.decode(answer.read())["gateway"]
        if len(gateway.get("workers", [1])) == count:
            return
        time.sleep(0.05)
    raise BenchFailed(f"not all of the {count} workers became ready")


def measure_gateway(tools: Programs, subject: Subject, folder: Path, options: Options, store: str) -> Iterator[tuple[str, Row]]:
    """A row for each number of connections. They are meant for all workers together; `64x` means 64 for each."""
    asked = Asked(stream=False, deltas=1, store=store != "unstored")
    workers = int(subject.name.split()[-1])
    with started(subject, tools.engine_port, folder) as server:
        await_workers(server.port, workers)
        for connections in options.connections:
            if connections.endswith("x") and workers == 1 and f"{connections[:-1]}" in options.connections:
                continue
            count = int(connections[:-1]) * workers if connections.endswith("x") else int(connections)
            measure = partial(tools.measure, subject.api, server.port, server.pid)
            trial = measure(Load(asked, count, TRIAL if count > 1 else WARM, warm=min(WARM, count)))
            requests = max(2 * count, int(options.seconds * trial.completed / trial.seconds))
            database = next(iter(folder.rglob("responses.db")), None)
            writer = writer_of(list(cpu_times(server.pid)))
            before, spent = changes(database) if database else None, cpu_seconds(writer) if writer else 0.0
            found: Measured = measure(Load(asked, count, requests, limit=60 + 5 * options.seconds))
            after = changes(database) if database else None
            writer_cpu = cpu_seconds(writer) - spent if writer else 0.0
            commits = after - before if before is not None and after is not None else 0
            yield (
                connections,
                Row(
                    rate=found.completed / found.seconds,
                    p50=1e3 * found.latency.whole.p50,
                    p99=1e3 * found.latency.whole.p99,
                    cpu=1e3 * found.cpu / found.completed,
                    writer_cpu=1e3 * writer_cpu / found.completed,
                    records_per_commit=found.completed / commits if commits else None,
                ),
            )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


# ---- the store alone -------------------------------------------------------------------------------------------------


def to_record() -> Record:
    """Like that of a short answer."""
    id, message, answer = map(new_id, ("resp", "msg", "msg"))
    question = b'[{"type":"message","role":"user","content":[{"type":"input_text","text":"Say something."}],"id":"%s"}]'
    output = b'[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello."}],"id":"%s"}]'
    return Record(
        id=id,
        owner="",
        created_at=CLOCK,
        expires_at=2 * CLOCK,
        status="completed",
        input=question % message.encode(),
        input_ids=(message,),
        output=output % answer.encode(),
        settings=b'{"model":"bench","settings":"%s"}' % (b"x" * 900),
        usage=UsageEntry(id, CLOCK, UsageKind("", "bench", "responses"), Counts(requests=1, input_tokens=9, output_tokens=9)),
    )


class Putting(msgspec.Struct):
    """What one process has put."""

    puts: int
    cpu: float
    times: list[float]


async def put_for(url: str, writer: str | None, in_flight: int, seconds: float) -> Putting:
    async with open_store(url, writer=writer) as store:
        # The connection to the writer is there by then.
        await asyncio.sleep(0.5)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        times: list[float] = []
        end = time.perf_counter() + seconds
        cpu = time.process_time()
        await asyncio.gather(*(put_until(end, store, times) for _ in range(in_flight)))
        return Putting(len(times), time.process_time() - cpu, times)


async def put_until(end: float, store: Store, times: list[float]) -> None:
    now = time.perf_counter()
    while now < end:
        began = now
        await store.put(to_record())
        now = time.perf_counter()
        times.append(now - began)


@contextlib.asynccontextmanager
async def store_writer(folder: Path, url: str, *, needed: bool) -> AsyncIterator[StoreWriter | None]:
    if not needed:
        yield None
        return
    writer = StoreWriter(folder)
    await writer.start(Settings(store=url))
    try:
        yield writer
    finally:
        await writer.stop()


async def measure_store(folder: Path, processes: int, in_flight: int, seconds: float, *, by_writer: bool) -> Row:
    """`in_flight`: of all processes together."""
    database = folder / "responses.db"
    url = f"sqlite:{database}"
    async with open_store(url), store_writer(folder, url, needed=by_writer) as writer:
        path = [writer.path] if writer is not None else []
        arguments = ["--put", url, str(in_flight // processes), str(seconds), *path]
        command = [sys.executable, "-m", "bench.workers", *arguments]
        start = partial(asyncio.create_subprocess_exec, *command, stdin=PIPE, stdout=PIPE, limit=1 << 26)
        children = [await start() for _ in range(processes)]
        for child in children:
            assert child.stdout is not None
            await child.stdout.readline()
        pid = writer.pid if writer is not None else None
        before, spent = changes(database) or 0, cpu_seconds(pid) if pid else 0.0
        ended = await asyncio.gather(*(child.communicate(b"\n") for child in children))
        commits = (changes(database) or 0) - before
        writer_cpu = cpu_seconds(pid) - spent if pid else 0.0
    found = [msgspec.json.decode(output, type=Putting) for output, _ in ended]
    times = sorted(each for one in found for each in one.times)
    puts = len(times)
    return Row(
        rate=puts / seconds,
        p50=1e3 * times[puts // 2],
        p99=1e3 * times[puts * 99 // 100],
        cpu=1e3 * (sum(one.cpu for one in found) + writer_cpu) / puts,
        writer_cpu=1e3 * writer_cpu / puts,
        records_per_commit=puts / commits if commits else None,
    )


def sync_times(folder: Path) -> list[float]:
    """How long the disk takes to have what a commit writes, in milliseconds."""
    times = []
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(COMMITS):
            file.write(os.urandom(COMMIT_BYTES))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1e3 * (time.perf_counter() - began))
    return sorted(times)


# ---- the run ---------------------------------------------------------------------------------------------------------


def measure_round(tools: Programs, folder: Path, options: Options) -> Iterator[tuple[tuple[str, ...], Row]]:
    versions = [("before", options.before), ("now", None)] if options.before is not None else [("now", None)]
    urls = {"sqlite": "sqlite:{folder}/responses.db", "unstored": "sqlite:{folder}/responses.db", "postgres": options.postgres}
    for store in options.stores:
        if (url := urls.get(store)) is None:
            continue
        for workers in options.workers:
            for version, source in versions:
                subject = gateway(version, source, workers, url)
                for connections, row in measure_gateway(tools, subject, folder, options, store):
                    yield (store, version, f"{workers} workers", f"{connections} connections"), row
    if "alone" in options.stores:
        yield from measure_alone(options)


def measure_alone(options: Options) -> Iterator[tuple[tuple[str, ...], Row]]:
    cases = [(1, False), *((workers, by_writer) for workers in options.workers for by_writer in (False, True) if workers > 1)]
    for processes, by_writer in cases:
        with tempfile.TemporaryDirectory(prefix="antiphon-bench-", dir=options.folder) as own, on_cores(MEASURED_CORES):
            row = asyncio.run(measure_store(Path(own), processes, 64, options.seconds, by_writer=by_writer))
        yield ("alone", "one writer" if by_writer else "each writes", f"{processes} processes", "64 in flight"), row


def line(of: Sequence[Row]) -> str:
    rates = [row.rate for row in of]
    p50, p99, cpu, writer = (statistics.median(values) for values in zip(*(row[1:5] for row in of), strict=True))
    grouped = [row.records_per_commit for row in of if row.records_per_commit is not None]
    records = f"{statistics.median(grouped):.1f}" if grouped else "–"
    rate = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
    return f"{rate} | {p50:.2f} | {p99:.2f} | {cpu:.3f} | {writer:.3f} | {records}"


HEAD = """
| store | version | | | a second (least to most) | p50, ms | p99, ms | CPU each, ms | of it, the writer | records a commit |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def run(options: Options) -> None:
    allow_many_descriptors()
    with contextlib.ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-", dir=options.folder)))
        synced = sync_times(own)
        print(
            f"{len(CORES)} cores, Python {sys.version.split()[0]}. {COMMIT_BYTES // 1024} KiB are written and synced in "
            f"{synced[COMMITS // 2]:.3f} ms, p99 {synced[COMMITS * 99 // 100]:.3f} ms, in {own}",
            flush=True,
        )
        programs = own / "programs"
        shutil.copytree(options.programs, programs) if options.programs else build(programs)
        port = free_port()
        engine = running("engine", [str(programs / "engine"), str(port)], port, "/v1/models", own, cores=ENGINE_CORES)
        tools = Programs(programs, port, stack.enter_context(engine), CLIENT_CORES)
        found: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
        folder = own / "gateways"
        folder.mkdir()
        for _ in range(options.rounds):
            for case, row in measure_round(tools, folder, options):
                found[case].append(row)
                print(f"{' '.join(case):45} {line([row])}", flush=True)
    print(HEAD)
    for case, rows in found.items():
        print(f"| {' | '.join(case)} | {line(rows)} |")


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("engine", "load"):
        compiled(name, folder, "-static")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured, by turns")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--connections", nargs="+", default=["64", "64x"], help="of all workers; with x, of each")
    stores = ["sqlite", "postgres", "unstored", "alone"]
    parser.add_argument("--stores", nargs="+", choices=stores, default=stores, help="alone: SQLite without a gateway")
    parser.add_argument("--postgres", help="URL of a database that may be filled")
    parser.add_argument("--programs", type=Path, help="a folder that --build has made")
    parser.add_argument("--before", type=Path, help="the folder src of an earlier version, measured by turns with this one")
    parser.add_argument("--folder", type=Path, help="where databases are made: on a real disk")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="only compile the engine and the clients")
    parser.add_argument("--put", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(namespace=Options())
    if options.build is not None:
        build(options.build)
    elif options.put is not None:
        url, in_flight, seconds, *writer = options.put
        putting = asyncio.run(put_for(url, writer[0] if writer else None, int(in_flight), float(seconds)))
        sys.stdout.buffer.write(msgspec.json.encode(putting))
    else:
        run(options)


if __name__ == "__main__":
    main()
