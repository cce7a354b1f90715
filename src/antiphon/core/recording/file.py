"""A recording as a file: one JSON object, with its version. It has no key and no secret of the gateway.

What clients sent and engines answered is in it, word for word, and so is the text of seals that the exchange opened.
"""

import base64
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon import errors
from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.lifecycle import REASONING_EVENTS
from antiphon.core.exchange.environment import Environment, GatewayTool
from antiphon.core.hosted.rows import BY_KIND, HOSTED
from antiphon.core.knowledge.help import HelpSetting
from antiphon.core.knowledge.knowledge import KnownFacts
from antiphon.core.recording.environment_values import EnvironmentValues
from antiphon.core.recording.recording import OF_COMPACTION, Call, Options, ReceivedPieces, Recording
from antiphon.core.toolbox.mcp_servers import Listing
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError, EngineFailure
from antiphon.wire.responses import Usage

VERSION = 1
MEMBER = "antiphon_recording"
NO_TOOLS: Mapping[str, GatewayTool] = {}


class NotARecording(Exception):
    """The message says why."""


class RecordedError(Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None
    failure: EngineFailure | None = None
    may_pass: bool | None = None


class RecordedSettings(Struct, frozen=True):
    """Those of the gateway that the exchange depends on, beside its tools."""

    check_grammars: bool = True
    help: HelpSetting = "auto"
    reasoning_events: str = "reasoning_text"
    always_summary: bool = False
    most_rounds: int = 10
    seals: bool = True
    own_sampling: bool = True
    polling_tools: tuple[str, ...] = ()
    fetched_bytes: int = 0
    asks_for_announced: bool = False


class RecordingFile(Struct, frozen=True):
    antiphon_recording: int
    # The version of Antiphon that wrote it.
    version: str
    body: str
    set_later: dict[str, Any]
    engines: list[KnownFacts]
    # The members of `RecordedSettings`, and one for each tool that was or was not run: see `core.hosted.hosted_tool.Record`.
    settings: dict[str, Any]
    history: list[dict[str, Any]]
    options: Options
    drawn: EnvironmentValues
    # Each with the seconds since the first call, and with the number of pieces before it.
    calls: list[tuple[float, str, Any, int]]
    # The pieces of the engine's answers: text, or {"base64": …}.
    pieces: list[tuple[float, Any]]
    is_cut: bool = False
    # The number of the terminal event, if there was one.
    last_number: int | None = None


def is_recording(data: bytes) -> bool:
    """Rather than an engine's answer."""
    return data.lstrip().startswith(b"{") and f'"{MEMBER}"'.encode() in data[:200]


def recording_to_file(recording: Recording, version: str) -> bytes:
    environment = recording.environment
    began = recording.calls[0][0] if recording.calls else 0.0
    file = RecordingFile(
        VERSION,
        version,
        (recording.request or recording.body).decode("utf-8", "replace"),
        recording.set_later,
        list(recording.engines),
        _to_settings(environment, seals=recording.seals),
        msgspec.json.decode(recording.history),
        structs.replace(recording.options, notices=list(recording.options.notices), attached=list(recording.options.attached)),
        recording.environment_values,
        [(round(at - began, 6), name, _to_plain(arguments), pieces) for at, name, arguments, pieces in recording.calls],
        [(round(at - began, 6), _to_text(data)) for at, data in zip(recording.times, recording.pieces, strict=True)],
        recording.is_cut,
        recording.last_number,
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=1)


def file_to_recording(data: bytes, tools: Mapping[str, GatewayTool] = NO_TOOLS) -> Recording:
    """`tools`: those of extensions that the gateway ran, by the `type` of their definition. They are not run again, but what
    their calls look like is not in the file."""
    try:
        head = msgspec.json.decode(data)
        version = head.get(MEMBER) if isinstance(head, dict) else None
        if version != VERSION:
            raise NotARecording(f"the file has version {version!r} of recordings; this version of Antiphon reads {VERSION}")
        file = msgspec.convert(head, RecordingFile)
        settings = msgspec.convert(file.settings, RecordedSettings)
        return Recording(
            body=file.body.encode(),
            now=lambda: 0.0,
            set_later=file.set_later,
            engines=file.engines,
            environment=_to_environment(settings, {**_to_tools(file.settings), **tools}),
            seals=settings.seals,
            history=msgspec.json.encode(file.history),
            options=file.options,
            environment_values=file.drawn,
            calls=[_to_call(call) for call in file.calls],
            pieces=ReceivedPieces(_to_bytes(text) for _, text in file.pieces),
            times=array("d", (at for at, _ in file.pieces)),
            is_cut=file.is_cut,
            last_number=file.last_number,
        )
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError) as wrong:
        raise NotARecording(f"the file is damaged: {wrong}") from None


def _to_settings(environment: Environment | None, *, seals: bool) -> dict[str, Any]:
    if environment is None:
        return {**structs.asdict(RecordedSettings()), **_to_members(NO_TOOLS)}
    names = {events: name for name, events in REASONING_EVENTS.items()}
    settings = RecordedSettings(
        environment.check_grammars,
        environment.help,
        names[environment.reasoning_events],
        environment.always_summary,
        environment.most_rounds,
        seals,
        environment.own_sampling,
        environment.polling_tools,
        environment.fetched_bytes,
        environment.asks_for_announced,
    )
    return {**structs.asdict(settings), **_to_members(environment.tools)}


def _to_members(tools: Mapping[str, GatewayTool]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for row in HOSTED:
        if (record := row.record) is not None:
            tool: Any = tools.get(record.member)
            # An extension may have put another in its place.
            is_known = isinstance(tool, row.definitions[record.member])
            members[record.member] = tool.to_recorded() if is_known else record.absent
    return members


def _to_tools(settings: Mapping[str, Any]) -> dict[str, GatewayTool]:
    """The definitions of the tools that were run."""
    tools: dict[str, GatewayTool] = {}
    for row in HOSTED:
        record = row.record if row.recorded_with is None else BY_KIND[row.recorded_with].record
        if record is None or (recorded := settings.get(record.member, record.absent)) is record.absent:
            continue
        tools |= {kind: definition.from_recorded(recorded) for kind, definition in row.definitions.items()}
    return tools


def _to_environment(settings: RecordedSettings, tools: Mapping[str, GatewayTool]) -> Environment:
    return Environment(
        new_id=lambda prefix: prefix,
        now=lambda: 0.0,
        check_grammars=settings.check_grammars,
        help=settings.help,
        own_sampling=settings.own_sampling,
        polling_tools=settings.polling_tools,
        fetched_bytes=settings.fetched_bytes,
        asks_for_announced=settings.asks_for_announced,
        reasoning_events=REASONING_EVENTS[settings.reasoning_events],
        always_summary=settings.always_summary,
        most_rounds=settings.most_rounds,
        tools=tools,
    )


# ---- the arguments of calls ------------------------------------------------------------------------------------------


def _to_text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _to_bytes(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])


def _to_plain(arguments: Any) -> Any:
    return error_to_plain(arguments) if isinstance(arguments, ApiError) else arguments


def error_to_plain(error: ApiError) -> RecordedError:
    return RecordedError(
        type(error).__name__, error.message, error.param, error.code, error.retry_after, error.failure, error.may_pass
    )


def _to_call(call: tuple[float, str, Any, int]) -> Call:
    at, name, plain, pieces = call
    convert = ARGUMENTS.get(name.removeprefix(OF_COMPACTION))
    return at, name, plain if convert is None or plain is None else convert(plain), pieces


def _errors() -> Mapping[str, type[ApiError]]:
    classes: Sequence[Any] = list(vars(errors).values())
    return {each.__name__: each for each in classes if isinstance(each, type) and issubclass(each, ApiError)}


def _to_error(plain: Any) -> ApiError:
    recorded = msgspec.convert(plain, RecordedError)
    kind = _errors().get(recorded.type, ApiError)
    error = kind.__new__(kind)
    # Some of them are made without arguments.
    ApiError.__init__(error, **{name: value for name, value in structs.asdict(recorded).items() if name != "type"})
    return error


# By the method: what makes its argument of what is in the file. Others are there as they are.
ARGUMENTS: Mapping[str, Callable[[Any], Any]] = {
    "finish": _to_error,
    "refused": _to_error,
    "abort": _to_error,
    "end": _to_error,
    "checked": lambda plain: msgspec.convert(plain, CheckOutcome),
    "tool_result": lambda plain: (plain[0], msgspec.convert(plain[1], ToolResult)),
    "listed": lambda plain: (plain[0], msgspec.convert(plain[1], Listing)),
    "estimated": lambda plain: msgspec.convert(plain, list[Usage]),
    "probed": lambda plain: msgspec.convert(plain, KnownFacts),
}
