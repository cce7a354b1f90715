"""`python -m shape.profiled …` is `antiphon …`, and counts the calls of our functions while it is asked to.

Our functions are those in files under SHAPE_SOURCE. A client connects to the socket that SHAPE_CONTROL names, and sends one
byte to begin and one to end. Each is answered with a line; the second one has the number of calls by file, as JSON. Before it,
the counter waits until nothing more is called: a response has work to do after its last byte.
"""

import json
import os
import runpy
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

CONTROL = "SHAPE_CONTROL"
SOURCE = "SHAPE_SOURCE"
MODULE = "antiphon"
# Calls in Python 3.11, and no longer in 3.12: what is counted is the same in both.
INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
QUIET = 0.1


class Counter:
    """`count` is the profile function of all threads. A resumed coroutine or generator is a call."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.on = False
        self.calls: dict[str, int] = {}

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_name not in INLINED:
            file = frame.f_code.co_filename
            if file.startswith(self._source):
                self.calls[file] = self.calls.get(file, 0) + 1

    def begin(self) -> None:
        self.calls = {}
        self.on = True

    def end(self) -> dict[str, int]:
        seen = -1
        while (now := sum(self.calls.values())) != seen:
            seen = now
            time.sleep(QUIET)
        self.on = False
        return self.calls


def listen(counter: Counter, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        connection, _ = server.accept()
    with connection:
        while connection.recv(1):
            counter.begin()
            connection.sendall(b"\n")
            connection.recv(1)
            connection.sendall(json.dumps(counter.end()).encode() + b"\n")


def main() -> None:
    counter = Counter(os.environ[SOURCE])
    threading.Thread(target=listen, args=(counter, os.environ[CONTROL]), daemon=True).start()
    threading.setprofile(counter.count)
    sys.setprofile(counter.count)
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
