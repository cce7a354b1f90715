"""The options of `serve`, and those that several commands have.

Help texts say "Default: x." rather than "[x]": rich takes most of the latter for markup and leaves it out.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from antiphon.core.knowledge.dialects import BY_NAME

# ---- values of options, without pydantic where nothing is checked ----------------------------------------------------
# For every option, given or not, typer makes a pydantic adapter: 8 MB and 0.1 s of the start of a gateway. A value that may be
# invalid is still left to it, with its messages.


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _read_plainly(params: Iterable[Any]) -> None:
    for param in params:
        # Not public. In a typer that has another name for it, this has no effect, and pydantic is used.
        param._runtime_param = PlainValue()


class PlainValue:
    """In place of typer's own object for one option."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        kind = param.type_descriptor.annotation
        if kind == list[str] and is_list and not isinstance(value, str):
            return list(value)
        if kind is str and isinstance(value, str):
            return value
        if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
            return int(value)
        if kind is Path and os.path.isfile(value) and os.access(value, os.R_OK):
            return Path(value)
        return self._by_typer(value, param, ctx)

    @staticmethod
    def _by_typer(value: Any, param: Any, ctx: Any) -> Any:
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


CHAT_TEMPLATE_HELP = "File with the chat template of engines that do not show it: a .jinja file or a tokenizer_config.json."

Config = Annotated[Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")]
UpstreamKey = Annotated[str | None, typer.Option(help="API key to send to the engines.")]
ChatTemplate = Annotated[str | None, typer.Option(help=CHAT_TEMPLATE_HELP)]
Url = Annotated[str | None, typer.Option(help="Address of the gateway. Default: the one that is running here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


# ---- codex, claude: the words in braces are those of the command ------------------------------------------------------

OnlyPrint = Annotated[bool, typer.Option("--print", help="Only print {printed}.")]
Full = Annotated[
    bool, typer.Option("--full", help="Keep all {features} of {name} on, also for a small model or a small context window.")
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Start {name} even if the context window of the model is too small for it.")
]
ClientUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="URL of the gateway, in front of what is for {name}. Default: the one at the port of the settings, else the "
        "newest that runs on this machine, else a new one.",
    ),
]
ClientConfig = Annotated[
    Path | None, typer.Option("--config", help="TOML file with Antiphon's settings. Default: antiphon.toml, if there is one.")
]


# ---- serve -----------------------------------------------------------------------------------------------------------

Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on. Default: 8484.")]
Workers = Annotated[str | None, typer.Option(help="How many processes answer requests; auto: one for each core. Default: 1.")]
Upstream = Annotated[
    list[str] | None, typer.Option(help="URL of an engine, with or without /v1. Repeat it for several engines.")
]
Dialect = Annotated[str | None, typer.Option(help=f"Dialect of the engines, if detection is wrong: {', '.join(BY_NAME)}.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Also run an engine here, with this model: a name that `antiphon models` lists, PATH.gguf or "
        "hf:OWNER/NAME/FILE.gguf."
    ),
]
ModelContext = Annotated[
    int | None, typer.Option(help="Context of each request to it, in tokens. Default: as trained, up to 32768.")
]
ModelSlots = Annotated[int | None, typer.Option(help="How many requests it processes at once. Default: 2.")]
ModelGpuLayers = Annotated[int | None, typer.Option(help="How many of its layers run on the GPU. Default: as many as fit.")]
ModelThreads = Annotated[int | None, typer.Option(help="How many CPU threads it uses. Default: one for each core.")]
ApiKey = Annotated[list[str] | None, typer.Option(help="Key that clients must send. Repeat it to allow several keys.")]
DefaultModel = Annotated[str | None, typer.Option(help="Model of requests that name none, or one that no engine knows.")]
ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--model-name",
        "--model-names",
        help="NAME=MODEL: another name for a model. NAME: a model of an engine that lists none. Repeat it for several.",
    ),
]
CorsOrigins = Annotated[
    list[str] | None,
    typer.Option(help="Origin of web pages that may use the API, or * for all. Repeat it for several origins."),
]
InsecureNoAuth = Annotated[
    bool | None,
    typer.Option(
        "--insecure-no-auth",
        help="Let other machines use the gateway without a key. They see no requests of others: "
        "the inspector is off then, unless the setting inspector is true.",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        help="Where responses are stored: sqlite:PATH, postgresql://… or memory:. Default: a file in the data directory."
    ),
]
Probe = Annotated[
    bool | None, typer.Option("--probe/--no-probe", help="Test what each engine can do when it is found. Default: yes.")
]
ModelHelp = Annotated[
    str | None,
    typer.Option(help="Help for models: auto (small ones get it), off (none does) or full (all do). Default: auto."),
]
LogLevel = Annotated[
    str | None, typer.Option(help="Least important messages to log: debug, info, warning or error. Default: info.")
]
LogFormat = Annotated[
    str | None,
    typer.Option(help="How to log: plain (for people), json (for programs) or auto (plain on a terminal). Default: auto."),
]
