"""Notes every connection that a Python process and its children open. Python imports this at its start if it is in PYTHONPATH.

One line for each: what was done, and with which address, as JSON, in the file that CONNECTIONS_LOG names.
"""

import json
import os
import sys
from typing import Any

LOG = os.environ["CONNECTIONS_LOG"]
# The place of the address among the arguments of an event.
EVENTS = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0}
# What uvloop does without Python's sockets, and so without an event.
UVLOOP = ("create_connection", "create_unix_connection", "create_datagram_endpoint", "getaddrinfo")


def note(event: str, address: Any) -> None:
    with open(LOG, "a") as log:
        log.write(json.dumps([event, address], default=str) + "\n")


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS:
        note(event, arguments[EVENTS[event]])


def note_calls(owner: Any, name: str) -> None:
    method = getattr(owner, name)

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        # Their first argument makes the protocol; getaddrinfo has none. A socket that is given was connected by Python.
        address = arguments if name == "getaddrinfo" else arguments[1:]
        if options.get("sock") is None:
            note(f"uvloop.{name}", [*address, {key: str(value) for key, value in options.items()}])
        return method(self, *arguments, **options)

    setattr(owner, name, call)


note("process", sys.argv[:1])
sys.addaudithook(hook)
try:
    import uvloop
except ImportError:
    pass
else:
    for each in UVLOOP:
        note_calls(uvloop.Loop, each)
