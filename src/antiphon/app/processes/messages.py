"""What the supervisor and a worker process send each other."""

from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.knowledge.knowledge import Loading


class SharedEngine(Struct, frozen=True):
    """The embedded engine, which the supervisor runs."""

    model: str
    url: str
    key: str
    # None, of an older supervisor: not known.
    loading: Loading | None = None


class Start(Struct, frozen=True, tag=True, kw_only=True):
    """The first message: what the process is to serve. It reads the settings itself, so a new one has new settings."""

    slot: int
    # How many there are.
    workers: int
    # As on the command line, where they are seen by nobody else.
    flags: dict[str, Any]
    config: str | None
    # The engines that were found on this machine; none: those of the settings, or the embedded one.
    found: tuple[str, ...]
    embedded: SharedEngine | None
    # File descriptors of the sockets on which clients connect.
    listening: tuple[int, ...]
    # The Unix socket at which the other worker processes reach this one.
    path: str
    supervisor: int
    shows_banner: bool
    # What follows has defaults, because `antiphon restart` starts newer processes under the supervisor that is there.
    # By slot, the sockets of the others, for as long as they have no process.
    others: dict[int, tuple[int, ...]] = {}
    # When the gateway was started, in seconds since 1970: long before this process, perhaps.
    gateway_started: float | None = None
    # The Unix socket of the process that writes to a store in SQLite.
    writer: str | None = None


class Member(Struct, frozen=True):
    """A worker process that is ready."""

    slot: int
    pid: int
    path: str


class Members(Struct, frozen=True, tag=True):
    """All that are ready now, also the one that gets this message."""

    members: tuple[Member, ...]


class Stop(Struct, frozen=True, tag=True):
    """Accept no more connections, let responses finish, and end. `within`: seconds; None: as the settings say."""

    within: float | None = None


class Reload(Struct, frozen=True, tag=True):
    """Read the settings again."""


class Woken(Struct, frozen=True, tag=True):
    """The store has changed: in both directions."""

    topic: str


class EngineMoved(Struct, frozen=True, tag=True):
    url: str


class EngineLost(Struct, frozen=True, tag=True): ...


class EngineProgressed(Struct, frozen=True, tag=True):
    """How far the embedded engine is with its model."""

    loading: Loading


class Ready(Struct, frozen=True, tag=True):
    """It accepts connections."""


class Failed(Struct, frozen=True, tag=True):
    """It cannot start, and another attempt would fail for the same reason."""

    reason: str


class Counts(Struct, frozen=True, tag=True):
    """The metrics of a worker process that is about to end, so that its counts are not lost."""

    text: bytes


class Ask(Struct, frozen=True, tag=True):
    """A question to the supervisor. `number`: of this question, for its answer."""

    number: int
    name: str
    arguments: tuple[Any, ...] = ()


class Note(Struct, frozen=True, tag=True):
    """The same, without an answer."""

    name: str
    arguments: tuple[Any, ...] = ()


class Answer(Struct, frozen=True, tag=True):
    number: int
    result: Any = None


class Refusal(Struct, frozen=True):
    """The answer to a question for a place that is refused: the name of the error, and what it says."""

    error: str
    message: str
    retry_after: float | None


class Full(Struct, frozen=True, tag=True):
    """The keys that may begin no further background response now, and the addresses of engines without a free place."""

    owners: tuple[str, ...]
    engines: tuple[str, ...]


ToWorker: TypeAlias = Start | Members | Stop | Reload | Woken | EngineMoved | EngineLost | EngineProgressed | Answer | Full
ToSupervisor: TypeAlias = Ready | Failed | Counts | Woken | Ask | Note
