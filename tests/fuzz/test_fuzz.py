"""The fuzzer: a small run of it, and that it sees what it is there to see."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.gateway import started

from antiphon.logs import log
from fuzz.cases import Case, request_cases, smaller, stream_cases
from fuzz.target import LONGEST_CALLBACK, Target
from fuzz.trial import FuzzEngine, Wrong, check_end, check_error

ROOT = Path(__file__).parent.parent.parent


def test_a_few_hundred_cases_are_all_answered_as_they_should() -> None:
    command = [sys.executable, "-m", "fuzz", "--seed", "14", "--requests", "300", "--streams", "200"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 requests and 200 streams" in done.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))}


def test_a_seed_makes_the_same_cases_again() -> None:
    assert list(request_cases(30, seed=3)) == list(request_cases(30, seed=3))
    assert list(stream_cases(30, seed=3)) == list(stream_cases(30, seed=3))
    assert list(stream_cases(30, seed=3)) != list(stream_cases(30, seed=4))


def test_a_case_is_only_ever_made_smaller() -> None:
    whole = Case(b'{"model": "mock", "input": [1, 2]}')
    less = list(smaller(whole))
    assert Case(b'{"model":"mock","input":[1]}') in less
    assert all(len(case.request) < len(whole.request) for case in less)


@pytest.fixture
def faults_of_target() -> Any:
    async def run(act: Any) -> list[str]:
        async with started(FuzzEngine()) as engine:
            target = Target(engine.url)
            await asyncio.to_thread(target.start)
            # What it did before the first request is no matter.
            target.take_faults()
            try:
                await asyncio.to_thread(act, target)
            finally:
                await asyncio.to_thread(target.stop)
            return target.take_faults()

    return run


def block(target: Target) -> None:
    """Uses the CPU in the event loop of the gateway for longer than a callback may."""
    assert target._loop is not None

    async def spin() -> None:
        until = time.thread_time() + 1.2 * LONGEST_CALLBACK
        while time.thread_time() < until:
            pass

    asyncio.run_coroutine_threadsafe(spin(), target._loop).result()


async def test_a_callback_that_takes_too_long_is_seen(faults_of_target: Any) -> None:
    (fault,) = await faults_of_target(block)
    assert "blocked" in fault


async def test_what_the_gateway_logs_as_a_bug_is_seen(faults_of_target: Any) -> None:
    (fault,) = await faults_of_target(lambda _: log("bug", level=logging.ERROR))
    assert fault == "bug"


@pytest.mark.parametrize(
    ("status", "code", "engine"),
    [(500, "x", b"broken"), (502, "internal_error", b"broken"), (503, "engine_unavailable", None), (507, "x", b"broken")],
)
def test_an_error_of_our_own_is_wrong(status: int, code: str, engine: bytes | None) -> None:
    error = {"message": "no", "type": "server_error", "param": None, "code": code}
    with pytest.raises(Wrong):
        check_error(status, error, Case(b"{}", engine))


def test_a_response_that_failed_by_a_bug_is_wrong() -> None:
    with pytest.raises(Wrong):
        check_end({"error": {"message": "The gateway failed. This is a bug; the log has its trace."}})
