"""Settings: flags over environment over file over these defaults."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

PREFIX = "ANTIPHON_"
Seconds = Annotated[float, Meta(gt=0)]
TransportName = Literal["auto", "fast", "plain"]


class SettingsError(Exception):
    """A setting that cannot be used; the message names it and where it came from."""


class Settings(Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8484
    # Base URLs of engines, with or without /v1. None: the well-known ports of this machine are looked at.
    upstream: tuple[str, ...] = ()
    upstream_key: str | None = None
    # The engine's dialect by name; None: it is detected.
    dialect: str | None = None
    # Any one of these opens the door; none: it stands open.
    api_key: tuple[str, ...] = ()
    # How often a silent engine's clients are told that the response is in progress.
    heartbeat: Seconds = 15.0
    connect_timeout: Seconds = 5.0
    # A long prompt is read before the first token; this is the time for it.
    first_byte_timeout: Seconds = 900.0
    idle_timeout: Seconds = 300.0
    # How often a request is tried again before its first byte.
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    max_body_bytes: Annotated[int, Meta(gt=0)] = 64 * 1024 * 1024
    # How long a WebSocket stays open, in seconds.
    websocket_lifetime: Seconds = 3600.0
    # How long running streams may go on after the signal to stop.
    shutdown_timeout: Seconds = 30.0
    # The name of raw reasoning's delta event: response.reasoning_text.delta or response.reasoning.delta.
    reasoning_events: Literal["reasoning_text", "reasoning"] = "reasoning_text"
    # Where the gateway keeps what must outlive it. None: the user's data directory.
    data_dir: str | None = None
    # Where responses and conversations are kept: sqlite:PATH, postgresql://… or memory:. None: a file in the data directory.
    store: str | None = None
    # How long they are kept.
    retention_days: Annotated[float, Meta(gt=0)] = 30.0
    # How much they may take; above it, what would go next goes earlier.
    store_max_bytes: Annotated[int, Meta(gt=0)] = 10 * 1024**3
    # How many background responses this gateway makes at once. 0: it only takes them in, and others make them.
    background_workers: Annotated[int, Meta(ge=0, le=1000)] = 4
    # A gateway that has not been heard of for so long, in seconds, is taken for dead, and its background responses begin anew.
    background_lease: Seconds = 30.0
    # How often the gateway that makes a background response may be lost before that is given up.
    background_attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    # How long a background response waits for its turn in a conversation, or for an engine that is away.
    background_patience: Seconds = 600.0
    # What reasoning and compactions are sealed with. None: a key is made once and kept in the data directory.
    seal_key: str | None = None
    # What a model is said to hold where its engine does not tell.
    context_window: Annotated[int, Meta(gt=0)] = 32768
    # A custom tool's call that breaks its grammar is asked for again, once. False: it is passed on as it comes.
    check_grammars: bool = True
    # An engine that is found is asked in the background what it can do. False: its dialect is believed.
    probe: bool = True
    # What the embedded engine serves: smollm2, a GGUF file, or hf:OWNER/NAME/FILE.gguf. None: it starts if none is found.
    model: str | None = None
    # The embedded engine's context of one conversation, in tokens. None: what the model was trained for, up to 32768.
    model_context: Annotated[int, Meta(ge=256)] | None = None
    # How many requests the embedded engine works on at once; each takes memory for a whole context.
    model_slots: Annotated[int, Meta(ge=1, le=64)] = 2
    # How many layers of the model go to the GPU. -1: as many as fit.
    model_gpu_layers: Annotated[int, Meta(ge=-1)] = -1
    # -1: as many as the machine has cores.
    model_threads: Annotated[int, Meta(ge=-1)] = -1
    # Where fetched models are kept. None: the user's cache directory.
    cache_dir: str | None = None
    # How bytes go to and from the sockets. fast needs internals of aiohttp, plain only its public API. auto: fast, where the
    # installed aiohttp has them.
    transport: TransportName = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


LISTS = frozenset({"upstream", "api_key"})


def load(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ, file: Path | None = None) -> Settings:
    """`flags` holds what the command line gave; what it did not give is None or empty."""
    values: dict[str, Any] = {}
    _merge(values, _from_file(file or _default_file(environment)), "the configuration file")
    _merge(values, _from_environment(environment), "the environment")
    _merge(values, {name: value for name, value in flags.items() if value not in (None, [], ())}, "the command line")
    return _convert(values, "the settings")


def _merge(values: dict[str, Any], layer: Mapping[str, Any], source: str) -> None:
    unknown = sorted(layer.keys() - set(Settings.__struct_fields__))
    if unknown:
        raise SettingsError(f"{source} has an unknown setting: {', '.join(unknown)}")
    _convert(layer, source)
    values.update(layer)


def _convert(values: Mapping[str, Any], source: str) -> Settings:
    try:
        return msgspec.convert(dict(values), Settings, strict=False)
    except msgspec.ValidationError as wrong:
        raise SettingsError(f"{source}: {wrong}") from None


def _default_file(environment: Mapping[str, str]) -> Path | None:
    if given := environment.get(f"{PREFIX}CONFIG"):
        return Path(given)
    here = Path("antiphon.toml")
    return here if here.is_file() else None


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        values = tomllib.loads(path.read_text())
    except OSError as missing:
        raise SettingsError(f"cannot read {path}: {missing.strerror}") from None
    except tomllib.TOMLDecodeError as broken:
        raise SettingsError(f"{path} is not TOML: {broken}") from None
    named = {name.replace("-", "_"): value for name, value in values.items()}
    return {name: _listed(name, value) for name, value in named.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: _listed(name, environment[PREFIX + name.upper()])
        for name in Settings.__struct_fields__
        if environment.get(PREFIX + name.upper())
    }


def _listed(name: str, value: Any) -> Any:
    """One value stands for a list of one; in the environment several are parted by commas."""
    if name in LISTS and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value
