"""Instructions of a running process, counted by Valgrind's tool callgrind: the same on a busy machine as on an idle one."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

OUTPUT = "callgrind.out"
WRAPPER = "valgrind", "--tool=callgrind", f"--callgrind-out-file={{folder}}/{OUTPUT}"
MISSING = "The instructions are left out: there is no valgrind. On Debian: apt-get install valgrind"


def is_missing() -> bool:
    return not (shutil.which("valgrind") and shutil.which("vgdb"))


def version() -> str:
    return subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()


class Instructions:
    """Of the process with this id, which runs with `WRAPPER` and writes into this folder."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = pid
        self._output = folder / OUTPUT
        self._dumps = 0

    async def since_last(self) -> int:
        """Counts since the last call of this method, or since the process was started."""
        await asyncio.to_thread(subprocess.run, ["vgdb", f"--pid={self._pid}", "dump"], check=True, capture_output=True)
        self._dumps += 1
        return total(Path(f"{self._output}.{self._dumps}"))


def count_run(words: list[str], folder: Path, environment: dict[str, str]) -> int:
    """Of a command from its start to its end."""
    wrapper = [word.format(folder=folder) for word in WRAPPER]
    subprocess.run([*wrapper, *words], check=True, capture_output=True, env=environment)
    return total(folder / OUTPUT)


def total(path: Path) -> int:
    found = re.search(r"^totals: (\d+)$", path.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{path.name} has no total")
    return int(found[1])
