"""The messages between a supervisor and its worker processes."""

import msgspec

from antiphon.app.processes.messages import Start, ToWorker
from antiphon.engines.embedded.process import SharedEngineProcess

# As version 0.1.0 sent it, before workers had the sockets of others.
OLDER_START = {
    "type": "Start",
    "slot": 1,
    "workers": 2,
    "flags": {},
    "config": None,
    "found": ["http://127.0.0.1:8080"],
    "embedded": {"model": "smollm2", "url": "http://127.0.0.1:9", "key": "k"},
    "listening": [7],
    "path": "/tmp/a/1-1",
    "supervisor": 10,
    "shows_banner": False,
}


def test_a_worker_is_started_by_an_older_supervisor() -> None:
    """`antiphon restart` starts newer processes under the supervisor that is there."""
    start = msgspec.msgpack.decode(msgspec.msgpack.encode(OLDER_START), type=ToWorker)
    assert isinstance(start, Start)
    assert start.listening == (7,)
    assert start.others == {}
    assert start.embedded is not None
    assert SharedEngineProcess(**msgspec.structs.asdict(start.embedded)).loading.model == "smollm2"
