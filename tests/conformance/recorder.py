"""Records by its name what every test puts on the wire of a gateway in this process, and what is wrong with what is emitted."""

import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
from aiohttp import web

from antiphon.core.events.encode import Encoder
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.errors import UNREADABLE
from antiphon.wire.responses import CreateResponse

Body = dict[str, Any]


class Seen(NamedTuple):
    """The name of a client protocol, a kind of thing, and its name: ("responses", "event", "response.created")."""

    protocol: str
    kind: str
    name: str


class Recorder:
    def __init__(self) -> None:
        self.test = ""
        self.seen: defaultdict[str, set[Seen]] = defaultdict(set)
        self.passed: set[str] = set()
        self.violations: list[str] = []
        # Where what was emitted is kept, if anybody wants to look at it.
        self.folder: Path | None = None
        # Encoded values that were valid: many tests emit the same ones.
        self._valid: set[int] = set()
        # The names of the fields of the form that is being read.
        self.fields: list[str] = []

    def begin(self, test: str) -> None:
        self.test = test
        self.violations = []

    def take_violations(self) -> list[str]:
        found, self.violations = list(dict.fromkeys(self.violations)), []
        return found

    def take_fields(self) -> list[str]:
        fields, self.fields = self.fields, []
        return fields

    def saw(self, *things: Seen) -> None:
        self.seen[self.test].update(things)

    def check(self, data: bytes, find: Callable[[], Iterable[str]]) -> None:
        """`data`: what was emitted. `find`: says what is wrong with it."""
        digest = hash(data)
        if digest in self._valid:
            return
        found = [*find()]
        self.violations += found
        if self.folder is not None:
            self._keep(data)
        if not found:
            self._valid.add(digest)

    def _keep(self, data: bytes) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{os.getpid()}.jsonl").open("ab") as kept:
            kept.write(data + b"\n")


RECORDER = Recorder()


class Watcher(ABC):
    """Names what clients of one protocol send and get, and says what is wrong with what they get."""

    protocol: ClassVar[ClientProtocol]

    def __init__(self, recorder: Recorder = RECORDER) -> None:
        self.recorder = recorder

    def saw(self, kind: str, name: str) -> None:
        self.recorder.saw(Seen(self.protocol.name, kind, name))

    @abstractmethod
    def to_route(self, method: str, path: str) -> str | None:
        """The route of the API that this is, without names in its path; None if it is one of our own."""

    @abstractmethod
    def request(self, route: str, request: web.Request, body: bytes) -> None:
        """What a client sends. `route`: from `to_route`."""

    @abstractmethod
    def answer(self, route: str, status: int, body: bytes) -> None:
        """What it gets, if that is JSON and no stream."""

    @abstractmethod
    def frames(self, data: bytes) -> None:
        """A piece of a stream that it gets: one or several frames."""

    def listen(self) -> None:
        """For the rest of the process: to every stream of the protocol."""
        kind = type(self.protocol)
        make = kind.encoder

        def encoder(protocol: Any, request: CreateResponse, facts: Any) -> Encoder:
            return WatchedEncoder(make(protocol, request, facts), self)

        kind.encoder = encoder  # type: ignore[assignment, method-assign]


class WatchedEncoder:
    end: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self, encoder: Encoder, watcher: Watcher) -> None:
        self._encoder, self._watcher = encoder, watcher
        self.end = encoder.end  # type: ignore[misc]

    def encode(self, event: AnyEvent) -> bytes:
        data = self._encoder.encode(event)
        if data:
            self._watcher.frames(data)
        return data

    def heartbeat(self) -> bytes:
        return self._encoder.heartbeat()


# ---- what watchers read ----------------------------------------------------------------------------------------------


def object_in(body: bytes) -> Body:
    """Empty if it is none."""
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[Body]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
