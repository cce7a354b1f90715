"""Processes that outlive the one that has started them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import python_path

SCRIPT = """
import os, sys
from antiphon.cli.clients.process import descendants, run_process, stop_signals
with stop_signals():
    code = run_process(["/bin/sh", "-c", sys.argv[1]], os.environ)
print(code, len(descendants(os.getpid())))
"""


@pytest.mark.parametrize(
    ("script", "left"),
    [
        # It can be seen until its parent asks for its exit code. The one that has started it has ended.
        (
            "(sh -c 'echo $$ > pid' &); while ! [ -s pid ] || kill -0 $(cat pid) 2> /dev/null; do :; done; exit 7",
            "7 0",
        ),
        # What was made to stay, stays, until a signal comes.
        ("(sleep 5 > /dev/null &); exit 7", "7 1"),
    ],
    ids=["ended", "runs"],
)
def test_orphans_are_adopted_and_those_that_have_ended_do_not_stay(script: str, left: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": python_path()}
    command = [sys.executable, "-c", SCRIPT, script]
    run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == left, run.stderr
