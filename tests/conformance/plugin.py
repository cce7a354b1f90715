"""The hooks of the test run: a test fails for what its gateway emitted, and the run for a row that its tests did not show."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conformance.manifest import MANIFESTS
from conformance.recorder import RECORDER
from conformance.watchers import listen

FAULTS = pytest.StashKey[list[str]]()
# In what a process of pytest-xdist reports when it ends.
FAULTS_KEY = "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-emitted",
        metavar="FOLDER",
        type=Path,
        help="write what the gateways of the tests emit to files, one object a line",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FAULTS] = []
    RECORDER.folder = config.getoption("keep_emitted")
    listen()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    RECORDER.begin(item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    yield
    _fail_for_violations()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    yield
    _fail_for_violations()


NOT_ALLOWED = "emitted what the API's schemas do not allow (a difference that is meant has a row in a deviations.py):"


def _fail_for_violations() -> None:
    """Whatever the test itself looked at."""
    if found := RECORDER.take_violations():
        pytest.fail(f"{NOT_ALLOWED}\n" + "\n".join(found), pytrace=False)


# ---- the manifest, as far as its tests ran ---------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Before any test is left out."""
    if not any("::" in argument for argument in config.args):
        collected = [item.nodeid for item in items]
        config.stash[FAULTS] += [fault for manifest in MANIFESTS for fault in manifest.missing_tests(collected)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        RECORDER.passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    faults = session.config.stash[FAULTS]
    # Of several processes, each looks at its own tests; the one that started them only collects what they have found.
    if not session.config.pluginmanager.hasplugin("dsession"):
        seen = {test: RECORDER.seen[test] for test in RECORDER.passed}
        for manifest in MANIFESTS:
            faults += [*manifest.unshown_rows(seen), *manifest.unlisted(seen)]
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[FAULTS_KEY] = faults
    if faults and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """One of the processes has ended."""
    node.config.stash[FAULTS] += getattr(node, "workeroutput", {}).get(FAULTS_KEY, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if faults := config.stash[FAULTS]:
        terminalreporter.section("the manifests of conformance", red=True)
        for fault in sorted(set(faults)):
            terminalreporter.line(fault)
