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
from antiphon.core.events.event_style import REASONING_EVENTS
from antiphon.core.exchange.environment import Environment, GatewayTool
from antiphon.core.hosted.code_interpreter import KIND as CODE_INTERPRETER
from antiphon.core.hosted.code_interpreter import CodeInterpreter
from antiphon.core.hosted.file_search import KIND as FILE_SEARCH
from antiphon.core.hosted.file_search import FileSearch
from antiphon.core.hosted.image_generation import KIND as IMAGE_GENERATION
from antiphon.core.hosted.image_generation import ImageGeneration
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.hosted.shell import KIND as HOSTED_SHELL
from antiphon.core.hosted.shell import TYPE as SHELL
from antiphon.core.hosted.shell import HostedShell, ShellDefinition
from antiphon.core.hosted.web_search import KIND as WEB_SEARCH
from antiphon.core.hosted.web_search import TYPES as WEB_SEARCH_TYPES
from antiphon.core.hosted.web_search import WebSearch
from antiphon.core.knowledge.help import HelpSetting
from antiphon.core.knowledge.knowledge import KnownFacts
from antiphon.core.recording.environment_values import EnvironmentValues
from antiphon.core.recording.recording import (
    OF_COMPACTION,
    Call,
    Options,
    ReceivedPieces,
    Recording,
)
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
    """Those of the gateway that the exchange depends on."""

    check_grammars: bool = True
    help: HelpSetting = "auto"
    reasoning_events: str = "reasoning_text"
    always_summary: bool = False
    most_rounds: int = 10
    seals: bool = True
    # The labels of the operator's MCP servers; None: there were no MCP tools.
    mcp: list[str] | None = None
    # Whether web_search opened pages; None: it was not run here.
    web_search: bool | None = None
    # Whether an MCP server searched for file_search; None: it was not run here.
    file_search: bool | None = None
    # The memory that code_interpreter gave to a container; None: it was not run here.
    code_interpreter: str | None = None
    # Whether image_generation was run here.
    image_generation: bool = False


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
        RecordedSettings() if environment is None else _to_settings(environment, seals=recording.seals),
        msgspec.json.decode(recording.history),
        recording.options._replace(notices=list(recording.options.notices), attached=list(recording.options.attached)),
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
        return Recording(
            body=file.body.encode(),
            now=lambda: 0.0,
            set_later=file.set_later,
            engines=file.engines,
            environment=_to_environment(file.settings, tools),
            seals=file.settings.seals,
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


def _to_settings(environment: Environment, *, seals: bool) -> RecordedSettings:
    names = {events: name for name, events in REASONING_EVENTS.items()}
    return RecordedSettings(
        environment.check_grammars,
        environment.help,
        names[environment.reasoning_events],
        environment.always_summary,
        environment.most_rounds,
        seals,
        sorted(mcp.labels) if isinstance(mcp := environment.tools.get("mcp"), McpTools) else None,
        search.opens_pages if isinstance(search := environment.tools.get(WEB_SEARCH), WebSearch) else None,
        files.by_mcp if isinstance(files := environment.tools.get(FILE_SEARCH), FileSearch) else None,
        code.most_memory if isinstance(code := environment.tools.get(CODE_INTERPRETER), CodeInterpreter) else None,
        isinstance(environment.tools.get(IMAGE_GENERATION), ImageGeneration),
    )


def _to_environment(settings: RecordedSettings, tools: Mapping[str, GatewayTool]) -> Environment:
    built_in: dict[str, GatewayTool] = {} if settings.mcp is None else {"mcp": McpTools(settings.mcp)}
    if settings.web_search is not None:
        built_in |= dict.fromkeys(WEB_SEARCH_TYPES, WebSearch(opens_pages=settings.web_search))
    if settings.file_search is not None:
        built_in[FILE_SEARCH] = FileSearch(by_mcp=settings.file_search)
    if settings.code_interpreter is not None:
        memory = settings.code_interpreter
        built_in[CODE_INTERPRETER] = CodeInterpreter(most_memory=memory)
        built_in |= {SHELL: ShellDefinition(most_memory=memory), HOSTED_SHELL: HostedShell()}
    if settings.image_generation:
        built_in[IMAGE_GENERATION] = ImageGeneration()
    return Environment(
        new_id=lambda prefix: prefix,
        now=lambda: 0.0,
        check_grammars=settings.check_grammars,
        help=settings.help,
        reasoning_events=REASONING_EVENTS[settings.reasoning_events],
        always_summary=settings.always_summary,
        most_rounds=settings.most_rounds,
        tools={**built_in, **tools},
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
