"""Runs programs in Python one after another, each in a process of its own that begins with the SDK imported: to import it takes
most of the time of such a program."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple


class Ran(NamedTuple):
    code: int
    output: str
    errors: str


class Programs:
    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(self, program: str, folder: Path) -> Ran:
        """In this folder, where files with its output are left, too."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"program": program, "folder": str(folder)}) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return Ran(code, *((folder / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")))


@contextmanager
def programs_with_the_sdk() -> Iterator[Programs]:
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Programs(server)


def main() -> None:
    import openai

    # The rest is imported by a client that is used.
    with openai.OpenAI(api_key="any", base_url="http://127.0.0.1:1", max_retries=0) as client, suppress(openai.APIError):
        client.responses.create(model="any", input="Hi")
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(asked["program"], Path(asked["folder"]))
            return
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


def _become(program: str, folder: Path) -> None:
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        file = os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
