"""A strict engine and a gateway in front of it, and the real model that comes with us, for every test that wants them."""

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings
from support import doc_commands
from support.commands import ANTIPHON, environment
from support.engine import MockEngine
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway
from support.memory_folder import write_to_memory
from support.postgres import PostgresServer, programs_with_pgvector
from support.programs import Missing, leave_out, why_no_llamacpp
from support.stores import Clock

from antiphon import logs
from antiphon.settings.tables import VectorStoreSettings
from antiphon.store import Store, open_store
from antiphon.store.files import pgvector

# Machines differ in speed; no test depends on timing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("default")

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where nothing compiled may be written, every process that a test starts would compile Antiphon anew, and each run of pytest
# all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# As where Antiphon is installed: messages name the command that can be typed, and that is `antiphon` if it is on the PATH.
os.environ["PATH"] = os.pathsep.join((os.environ["PATH"], str(Path(sys.executable).parent)))

write_to_memory()

# Validates what every test emits.
pytest_plugins = ["conformance.plugin"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests themselves are no garbage, and there are so many that a search among them takes a second."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """A test may configure the log; the next one reads it through pytest again."""
    logger = logs.logger
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate, level = before
    logger.setLevel(level)


# Tests that run llama.cpp. A machine that cannot load it leaves them out.
RUN_LLAMACPP = (
    "tests/llamacpp/",
    "tests/engines/embedded/",
    "tests/cli/test_chat.py",
    "tests/cli/test_doctor_gateway.py",
    "tests/cli/test_gateway_readiness.py",
    "tests/cli/test_serve_messages.py",
    "tests/docs/test_commands.py",
    "tests/e2e/test_doctor.py",
    "tests/e2e/test_fresh_clone.py",
    "tests/engines/probes/test_constraint_probes.py",
    "tests/engines/probes/test_prober_llamacpp.py",
    "tests/engines/probes/test_template_probes.py",
    "tests/release/test_no_telemetry.py",
    "tests/transcripts/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    concerned = [item for item in items if item.nodeid.startswith(RUN_LLAMACPP)]
    if concerned and (reason := why_no_llamacpp()) is not None:
        if os.environ.get("CI"):
            raise pytest.UsageError(reason)
        for item in concerned:
            item.add_marker(pytest.mark.skip(reason))


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[MockEngine]:
    mock = MockEngine()
    await mock.start()
    yield mock
    await mock.stop()


@pytest.fixture(params=["fast", "plain"])
def both_transports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test once on each transport."""
    monkeypatch.setitem(DEFAULTS, "transport", request.param)


@pytest.fixture
def without_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways list the models of their engines, and none of their own."""
    monkeypatch.setitem(DEFAULTS, "vector_stores", VectorStoreSettings(embedding_model="off"))


@pytest_asyncio.fixture
async def gateway(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine) as running:
        yield running


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory with SmolLM2 in it, fetched as a person would. The processes of one test run share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    pulled = subprocess.run([*ANTIPHON, "pull", "smollm2"], env=environment(folder), capture_output=True, text=True)
    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout == f"{folder / 'models' / 'smollm2.gguf'}\n"
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
    except Missing as reason:
        leave_out(str(reason))
    server.create()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def postgres_with_pgvector() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer(programs_with_pgvector())
    except Missing as reason:
        leave_out(str(reason))
    server.create()
    server.start()
    yield server
    server.remove()


# ---- every kind of store ---------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store. A test that wants it runs with every kind of store."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        with server.shared_database() as database:
            yield database
    else:
        yield f"sqlite:{tmp_path / 'responses.db'}" if request.param == "sqlite" else "memory:"


# What compares the vectors of files: the gateway in each of the databases that keep them, or pgvector.
VECTOR_DATABASES = ("memory", "sqlite", "postgres", "postgres_with_pgvector")


@pytest_asyncio.fixture(params=["memory", *(pytest.param(kind, marks=pytest.mark.slow) for kind in VECTOR_DATABASES[1:])])
async def vector_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a store of files. One kind stands for all but in the slow tests."""
    async with vector_database(request, tmp_path) as url:
        yield url


@pytest_asyncio.fixture(params=VECTOR_DATABASES)
async def every_vector_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The same, with every kind in all tests."""
    async with vector_database(request, tmp_path) as url:
        yield url


@asynccontextmanager
async def vector_database(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """What pgvector needs is there from the beginning: so all of the searches use it."""
    if not request.param.startswith("postgres"):
        yield f"sqlite:{folder / 'responses.db'}" if request.param == "sqlite" else "memory:"
        return
    server: PostgresServer = request.getfixturevalue(request.param)
    with server.shared_database() as database:
        if "pgvector" in request.param:
            async with open_store(database) as opened:
                await opened.files.database.maintain(pgvector.create())
        yield database


@pytest_asyncio.fixture
async def store(url: str, clock: Clock) -> AsyncIterator[Store]:
    async with open_store(url, clock) as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many commands of the documents were run, and which tests were left out."""
    if left_out := Counter(reason_of(report) for report in terminalreporter.getreports("skipped")):
        terminalreporter.section("left out")
        for reason, count in left_out.most_common():
            terminalreporter.write_line(f"{count:5} tests: {reason}")
    if any("tests/docs" in report.nodeid for report in terminalreporter.getreports("passed")):
        terminalreporter.section("commands of the documents")
        for what, count in doc_commands.counted().most_common():
            terminalreporter.write_line(f"{count:3} {what}")


def reason_of(skipped: pytest.TestReport) -> str:
    """Why a test was left out: the last of the three parts of what pytest keeps of it."""
    return str(skipped.longrepr[-1]).removeprefix("Skipped: ") if isinstance(skipped.longrepr, tuple) else str(skipped.longrepr)
