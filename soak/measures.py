"""What a process uses while it is loaded: its memory and its descriptors, once a second."""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

INTERVAL = 1.0


def memory_mb(pid: int) -> float:
    """The resident memory."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@dataclass
class Samples:
    memory: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def memory_at(self, part: float) -> float:
        """The median around this part of the run."""
        at = round(part * (len(self.memory) - 1))
        width = max(1, len(self.memory) // 20)
        return median(self.memory[max(0, at - width) : at + width + 1])


class Sampler:
    """`with Sampler(pid) as samples:` takes them in a thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.samples = Samples()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Samples:
        self._thread.start()
        return self.samples

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self.samples.memory.append(memory_mb(self._pid))
            self.samples.descriptors.append(descriptors(self._pid))
