"""A recording as a file: one JSON object, with its version. It has no key and no secret of the gateway.

What clients sent and engines answered is in it, word for word, and so is the text of seals that the exchange opened.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon import errors
from antiphon.core.check_work import CheckOutcome
from antiphon.core.drawn import Drawn
from antiphon.core.environment import Environment
from antiphon.core.event_style import REASONING_EVENTS
from antiphon.core.help import HelpSetting
from antiphon.core.knowledge import KnownFacts
from antiphon.core.recording import OF_COMPACTION, RECEIVE, Call, Options, Recording
from antiphon.core.sealed_text import NO_SEALER, Sealer
from antiphon.core.tools import ToolResult
from antiphon.errors import ApiError, EngineFailure
from antiphon.wire.responses import Usage

VERSION = 1
MEMBER = "antiphon_recording"


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
    """Those of the gateway that the exchange depends on."""

    check_grammars: bool = True
    help: HelpSetting = "auto"
    reasoning_events: str = "reasoning_text"
    always_summary: bool = False
    most_rounds: int = 10
    seals: bool = True


class RecordingFile(Struct, frozen=True):
    antiphon_recording: int
    # The version of Antiphon that wrote it.
    version: str
    body: str
    set_later: dict[str, Any]
    engines: list[KnownFacts]
    settings: RecordedSettings
    history: list[dict[str, Any]]
    options: Options
    drawn: Drawn
    # Each with the seconds since the first.
    calls: list[tuple[float, str, Any]]
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
        RecordedSettings() if environment is None else _to_settings(environment),
        msgspec.json.decode(recording.history),
        recording.options._replace(notices=list(recording.options.notices)),
        recording.drawn,
        [(round(at - began, 6), name, _to_plain(name, arguments)) for at, name, arguments in recording.calls],
        recording.is_cut,
        recording.last_number,
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=1)


def file_to_recording(data: bytes) -> Recording:
    try:
        head = msgspec.json.decode(data)
        version = head.get(MEMBER) if isinstance(head, dict) else None
        if version != VERSION:
            raise NotARecording(f"the file has version {version!r} of recordings; this version of Antiphon reads {VERSION}")
        file = msgspec.convert(head, RecordingFile)
        return Recording(
            body=file.body.encode(),
            now=lambda: 0.0,
            set_later=file.set_later,
            engines=file.engines,
            environment=_to_environment(file.settings),
            history=msgspec.json.encode(file.history),
            options=file.options,
            drawn=file.drawn,
            calls=[_to_call(call) for call in file.calls],
            is_cut=file.is_cut,
            last_number=file.last_number,
        )
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError) as wrong:
        raise NotARecording(f"the file is damaged: {wrong}") from None


def _to_settings(environment: Environment) -> RecordedSettings:
    names = {events: name for name, events in REASONING_EVENTS.items()}
    return RecordedSettings(
        environment.check_grammars,
        environment.help,
        names[environment.reasoning_events],
        environment.always_summary,
        environment.most_rounds,
        environment.sealer is not NO_SEALER,
    )


def _to_environment(settings: RecordedSettings) -> Environment:
    return Environment(
        new_id=lambda prefix: prefix,
        now=lambda: 0.0,
        # Nothing is sealed or opened with it: what was, is in the recording.
        sealer=Sealer(lambda text: "", lambda blob: None) if settings.seals else NO_SEALER,
        check_grammars=settings.check_grammars,
        help=settings.help,
        reasoning_events=REASONING_EVENTS[settings.reasoning_events],
        always_summary=settings.always_summary,
        most_rounds=settings.most_rounds,
    )


# ---- the arguments of calls ------------------------------------------------------------------------------------------


def _to_plain(name: str, arguments: Any) -> Any:
    if isinstance(arguments, bytes):
        try:
            return arguments.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(arguments).decode()}
    if isinstance(arguments, ApiError):
        return error_to_plain(arguments)
    return arguments


def error_to_plain(error: ApiError) -> RecordedError:
    return RecordedError(
        type(error).__name__, error.message, error.param, error.code, error.retry_after, error.failure, error.may_pass
    )


def _to_call(call: tuple[float, str, Any]) -> Call:
    at, name, plain = call
    method = name.removeprefix(OF_COMPACTION)
    if method == RECEIVE:
        return at, name, plain.encode() if isinstance(plain, str) else base64.b64decode(plain["base64"])
    if method in ("finish", "refused", "abort", "end"):
        return at, name, None if plain is None else _to_error(plain)
    if method == "checked":
        return at, name, msgspec.convert(plain, CheckOutcome)
    if method == "tool_result":
        return at, name, (plain[0], msgspec.convert(plain[1], ToolResult))
    if method == "estimated":
        return at, name, msgspec.convert(plain, list[Usage])
    return at, name, plain


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
