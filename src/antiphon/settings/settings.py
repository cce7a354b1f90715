"""The settings, with their defaults."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs
from msgspec import Meta, Struct

from antiphon.settings.errors import SettingsError as SettingsError
from antiphon.settings.tables import (
    BatchSettings,
    ContainerSettings,
    FileSettings,
    McpSettings,
    ToolSettings,
    UsageSettings,
    VectorStoreSettings,
    WebhookSettings,
)

APP = "antiphon"
PREFIX = "ANTIPHON_"
Seconds = Annotated[float, Meta(gt=0)]
TransportName = Literal["auto", "fast", "plain"]
LogFormat = Literal["auto", "plain", "json"]


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting is also an environment variable (`ANTIPHON_` and the name in capitals) and a key of antiphon.toml."""

    # ---- the server ----

    # The address to listen on. "0.0.0.0" accepts connections from other machines, and needs a key.
    host: str = "127.0.0.1"
    # The port to listen on. 0: any free port.
    port: Annotated[int, Meta(ge=0, le=65535)] = 8484
    # How many processes answer requests, on the same port and with the same store; "auto": one for each core. Limits count over
    # all of them. More than 1 needs a store that processes can share: any but memory:.
    workers: Annotated[int, Meta(ge=1, le=256)] | Literal["auto"] = 1
    # Keys of clients: each request must send one of them as `Authorization: Bearer KEY`, `api-key: KEY` or `x-api-key: KEY`.
    # Empty, and no `keys` and no `admin_key`: no key is needed.
    api_key: tuple[str, ...] = ()
    # Origins of web pages that may use the API, such as https://example.com, or * for all. Empty: browsers keep them away.
    cors_origins: tuple[str, ...] = ()
    # Names under which clients reach the gateway, such as antiphon.example.com, or * for all. They are checked where no key is
    # set, because a web page of a stranger can be made to look like one of the gateway. Addresses, localhost, `host` and
    # host.docker.internal need not be named.
    allowed_hosts: tuple[str, ...] = ()
    # Listen beyond this machine without any key. False: the gateway does not start like that.
    insecure_no_auth: bool = False
    # The largest request body or WebSocket message, in bytes. A larger one gets a 413.
    max_body_bytes: Annotated[int, Meta(gt=0)] = 64 * 1024 * 1024
    # The most items that the input of one request may have. A stored history may have more.
    max_input_items: Annotated[int, Meta(gt=0)] = 20_000
    # The most tools of one request, with those in namespaces.
    max_tools: Annotated[int, Meta(gt=0)] = 2_000
    # How deep objects and arrays of a request may be nested.
    max_nesting: Annotated[int, Meta(ge=16, le=160)] = 128
    # The largest schema of a tool or of an answer, as JSON, in bytes.
    max_schema_bytes: Annotated[int, Meta(gt=0)] = 256 * 1024
    # The largest grammar of a custom tool, in bytes.
    max_grammar_bytes: Annotated[int, Meta(gt=0)] = 64 * 1024
    # The largest image in a data URL, in bytes.
    max_image_bytes: Annotated[int, Meta(gt=0)] = 32 * 1024 * 1024
    # The longest name of a tool, a namespace or a model, in characters.
    max_name_length: Annotated[int, Meta(ge=64)] = 256
    # From where files and images are fetched that requests name by URL (`file_url`, `image_url`, sources of type url): "off"
    # for nowhere; "listed" for `fetch_hosts`; "public" for these and the public internet; "any" for private networks too.
    # Link-local addresses and the gateway itself are never connected to. With "off", a file by URL is a 400, and the URL of an
    # image goes to the engine, which may be able to fetch it.
    fetch_urls: Literal["off", "listed", "public", "any"] = "off"
    # Hosts that files and images may be fetched from: "wiki.example", "10.0.0.5:8000", "*.example", "10.1.0.0/16".
    fetch_hosts: tuple[str, ...] = ()
    # What may be fetched for one request, in bytes. `max_image_bytes` counts for each image besides.
    fetch_bytes: Annotated[int, Meta(gt=0)] = 64 * 1024 * 1024
    # Seconds for fetching one file or image, with its redirects.
    fetch_timeout: Seconds = 20.0
    # Seconds of silence after which a stream gets a response.in_progress event, so that clients and proxies do not close it.
    heartbeat: Seconds = 15.0
    # Seconds that a client may take to send the headers of a request. Then its connection is closed.
    header_timeout: Seconds = 30.0
    # Seconds that the body of a request may pause. Then it gets a 408.
    body_timeout: Seconds = 60.0
    # Seconds that a client may read nothing of what it is sent. Then its connection is closed, and the engine's work ends.
    send_timeout: Seconds = 600.0
    # Seconds that a WebSocket may stay open.
    websocket_lifetime: Seconds = 3600.0
    # How many requests of one WebSocket may wait for the responses before them. One more gets a 429.
    websocket_queue: Annotated[int, Meta(ge=1, le=1000)] = 4
    # Seconds that running responses may take to finish after the signal to stop.
    shutdown_timeout: Seconds = 30.0
    # The name of the events of raw reasoning: "reasoning_text" for response.reasoning_text.delta and .done (OpenAI),
    # "reasoning" for response.reasoning.delta and .done (Open Responses).
    reasoning_events: Literal["reasoning_text", "reasoning"] = "reasoning_text"
    # When reasoning is sent as a summary instead of raw text: "asked" if the request has `reasoning.summary`, "always" for
    # clients that show nothing but summaries and do not ask for them.
    reasoning_summary: Literal["asked", "always"] = "asked"
    # What clients of /v1/chat/completions get. "reliable": a request with tools, a tool_choice, a response_format or calls in
    # its messages is answered like one of the Responses API. Then calls that the model writes as text are calls, and choices
    # and schemas are kept, or the answer is an error. All others are passed to the engine as they come. "pass": so are these.
    chat: Literal["reliable", "pass"] = "reliable"
    # Models, by the names that clients use, whose chat requests are all passed to the engine as they come.
    chat_pass_models: tuple[str, ...] = ()
    # The names of keys whose chat requests are all passed to the engine as they come.
    chat_pass_keys: tuple[str, ...] = ()
    # Whether small models get help, and models their own sampling, also for chat requests that are not passed to the engine.
    chat_help: bool = False
    # How bytes go to and from the sockets: "fast" uses internals of aiohttp, "plain" its public API only. "auto": fast, if the
    # installed aiohttp has those internals.
    transport: TransportName = "auto"
    # The least important messages to log.
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    # How messages are logged: "plain" for people, one short line each; "json" for programs, one object each. "auto": plain on a
    # terminal, else JSON.
    log_format: LogFormat = "auto"
    # Keys of clients that have names: NAME = "KEY", or a list of keys. What is stored and sealed belongs to the name, so a key
    # can be replaced by another one. `antiphon key new NAME --file` makes a key and its line, --hashed a line with its hash;
    # without these, the key is kept in the store, and works at once.
    keys: dict[str, tuple[str, ...]] = {}
    # Keys that may also read, cancel and delete what others have stored. Each may be a hash, as in `keys`.
    admin_key: tuple[str, ...] = ()
    # Count what is done, and show it to Prometheus at /metrics. False: nothing is counted.
    metrics: bool = True
    # Keys that may read /metrics, and nothing else. Each may be a hash, as in `keys`. Where any key is set, only these and the
    # admin_key may read it.
    metrics_key: tuple[str, ...] = ()
    # Send a trace of each response to an OpenTelemetry collector, without prompts and answers. The variables OTEL_… of the
    # environment say to which one. It needs the extra `otel`. False: nothing is sent to anybody.
    otel: bool = False
    # Record the last requests in memory, and show them and what is stored at `/`. If it is not set: on, except where other
    # machines can reach a gateway that needs no key. False: nothing is recorded, and there is no page.
    inspector: bool | None = None
    # The memory for recorded requests, in bytes. The oldest are forgotten first, also if there are more than
    # 1,000; one request may take an eighth of it.
    inspector_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 32 * 1024 * 1024
    # How many requests a second are recorded, on average: recording must not slow a busy gateway down. Ten seconds of more are
    # recorded, too. The page says how many were not.
    inspector_rate: Annotated[int, Meta(ge=1)] = 20
    # Show the texts of requests and answers. False: only their lengths are shown.
    inspector_bodies: bool = True

    # ---- the engines ----

    # Base URLs of engines, with or without /v1. dns+http://NAME:PORT is one engine for each address that the name has, which
    # is looked up again every few seconds. Empty: the well-known ports of this machine are searched.
    upstream: tuple[str, ...] = ()
    # The API key that is sent to the engines. None: no key is sent.
    upstream_key: str | None = None
    # The engines' dialect, by name. None: it is detected for each engine.
    dialect: str | None = None
    # The chat template of the engines that do not show it: a .jinja file, or a tokenizer_config.json. Its text shows what the
    # template demands of messages. None: that is found out by asking.
    chat_template: str | None = None
    # Other names for models: the name that clients use, and the model of an engine that answers for it.
    model_names: dict[str, str] = {}
    # The model of requests that name none, or one that no engine knows. None: the only model there is; if there are several, an
    # unknown name gets a 404.
    default_model: str | None = None
    # Let each new engine generate a few tokens, in the background, to see what it can do. False: only what costs nothing is
    # asked, such as how a prompt is rendered; for the rest, what its dialect says is assumed.
    probe: bool = True
    # Seconds to connect to an engine.
    connect_timeout: Seconds = 5.0
    # Seconds until an engine's first byte. It reads the whole prompt first, which takes long for a long one.
    first_byte_timeout: Seconds = 900.0
    # Seconds that an engine may be silent in the middle of an answer.
    idle_timeout: Seconds = 300.0
    # How often a failed request is sent again, as long as the engine has not sent the first byte of its answer. 0: never.
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    # Send the requests of a conversation to one engine of several, whose cache has its beginning. False: to the least busy one.
    affinity: bool = True
    # How many times its share of the requests an engine may have before those of its conversations are sent to another one.
    engine_load_bound: Annotated[float, Meta(ge=1)] = 1.25
    # Send the key of a conversation, a digest, to the engine: in the headers that routers in front of several engines read.
    routing_headers: bool = True
    # Seconds between two questions to each engine whether it is still there. 0: none is asked, and a request finds out.
    health_interval: Annotated[float, Meta(ge=0)] = 5.0
    # The context window, in tokens, that Codex gets for a model whose engine does not report one.
    context_window: Annotated[int, Meta(gt=0)] = 32768
    # The help that small models get: easier tools, worked examples, calls constrained to a form, an end to loops, and a lean
    # Codex. "auto": by what is known of the model; "off": none gets any; "full": all get all of it.
    help: Literal["auto", "off", "full"] = "auto"
    # The tools that a small model may call again at once with the same arguments, as patterns such as "read_*". Tools whose
    # names have words such as status, wait or poll in them may always be, and those that gave another result to the same call.
    # What may have changed something is not called again before the user's next message, unless its result said that nothing
    # was done, or a pattern here names it.
    polling_tools: tuple[str, ...] = ()
    # What is done where a model ends its turn with words that announce a call, such as "I will now run the tests.", and makes
    # none. "ask": it is asked once more, unseen, for the call or the answer, if it was seen to do so before; not with help
    # "off". "leave": nothing.
    announced_calls: Literal["ask", "leave"] = "leave"
    # Check that calls of custom tools follow their grammar, and ask the engine once more if not. False: they are not checked.
    check_grammars: bool = True
    # Seconds that one check of a grammar or a schema may take. Checks run in processes of their own; a check that takes longer
    # is killed.
    check_timeout: Seconds = 5.0

    # ---- the embedded engine ----

    # The model to serve: a name that `antiphon models` lists, PATH.gguf or hf:OWNER/NAME/FILE.gguf. None: the best one that was
    # pulled and fits, else smollm2, but only if no other engine is found.
    model: str | None = None
    # The context of one request, in tokens. None: the context that the model was trained for, up to 32768.
    model_context: Annotated[int, Meta(ge=256)] | None = None
    # How many requests are processed at once. Each takes memory for a whole context.
    model_slots: Annotated[int, Meta(ge=1, le=64)] = 2
    # How many layers of the model run on the GPU. -1: as many as fit.
    model_gpu_layers: Annotated[int, Meta(ge=-1)] = -1
    # How many CPU threads the engine uses. -1: one for each core.
    model_threads: Annotated[int, Meta(ge=-1)] = -1
    # The directory for downloaded models. None: antiphon in the user's cache directory.
    cache_dir: str | None = None

    # ---- stored data ----

    # The directory for data that must survive a restart: stored responses, the seal key. None: antiphon in the user's data
    # directory.
    data_dir: str | None = None
    # Where responses and conversations are stored: sqlite:PATH, postgresql://… or memory:. None: responses.db in data_dir.
    store: str | None = None
    # Whether answers of other protocols than the Responses API are stored, too: Anthropic's messages, and chat completions that
    # are not passed through. They can be fetched and continued as responses.
    store_messages: bool = False
    # Days after which stored responses and conversations are deleted.
    retention_days: Annotated[float, Meta(gt=0)] = 30.0
    # The largest size of the store, in bytes. Above it, the oldest data is deleted before its time.
    store_max_bytes: Annotated[int, Meta(gt=0)] = 10 * 1024**3
    # The secret that encrypts reasoning and compactions for clients, any text. Gateways with the same one can read each
    # other's. None: a key is generated once and stored in data_dir.
    seal_key: str | None = None

    # ---- background responses ----

    # How many background responses this gateway runs at once. 0: it only accepts them, and other gateways run them.
    background_workers: Annotated[int, Meta(ge=0, le=1000)] = 4
    # Seconds without a sign of life after which a gateway counts as dead, and its responses are restarted.
    background_lease: Seconds = 30.0
    # How many gateways may die while they run a response before it fails.
    background_attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    # Seconds that a background response waits for the lock of its conversation, or for an engine or a store that is down,
    # before it fails.
    background_patience: Seconds = 600.0
    # Seconds for which a background response with `store: false` can be read after its end. Then all of it is deleted.
    unstored_retention: Seconds = 600.0

    # A folder with prompts, which requests use by their ids: ID.md, or ID@VERSION.md. None: there are none.
    prompts: str | None = None
    # Messages when background responses and batches have ended: a table of the file, see below.
    webhooks: WebhookSettings = WebhookSettings()

    # ---- limits, of each gateway for itself, over all of its worker processes ----

    # How many responses of one key may run at once: streams, whole answers, responses on WebSockets, compactions, counts and
    # requests that are passed through. One more gets a 429; a background response waits. Without keys, all clients count
    # together. None: no limit.
    key_responses: Annotated[int, Meta(ge=1)] | None = None
    # How many such requests one key may send in a minute, background responses included: as many at once, then one whenever
    # its share of the minute has passed. One more gets a 429 that says when. None: no limit.
    key_requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    # How many requests one engine gets at once. Further ones wait here, the keys in turn. "auto": as many as the engine says
    # that it processes at once (llama.cpp: its slots); one that does not say has no limit. None: no limit.
    engine_requests: Annotated[int, Meta(ge=1)] | Literal["auto"] | None = None
    # How many requests may wait for one engine. One more gets a 503, or takes the place of one of a key that has more of them
    # there. Background responses always wait.
    engine_queue: Annotated[int, Meta(ge=0)] = 1000
    # Seconds that a request waits for an engine that is busy, before it gets a 503. Background responses wait longer.
    queue_timeout: Seconds = 60.0
    # Seconds that a response may take in all, from its request to its last event. Then it fails, and its engine is stopped.
    response_timeout: Seconds = 86_400.0

    # ---- usage and budgets ----

    # What is kept of the usage of each key, prices and budgets: a table of the file, see below.
    usage: UsageSettings = UsageSettings()

    # ---- tools that the gateway runs ----

    # How many answers of a model may call such tools in one response. Then it has to answer without tools.
    tool_rounds: Annotated[int, Meta(ge=1, le=1000)] = 10
    # Seconds that one call of such a tool may take. Then it is stopped, and the model gets an error as its result.
    tool_timeout: Seconds = 60.0
    # MCP servers: a table of the file, see below.
    mcp: McpSettings = McpSettings()
    # Built-in tools of the API: a table of the file for each, see below. One without a table is left out, with a notice.
    tools: ToolSettings = ToolSettings()
    # Containers, in which code of models runs: a table of the file, see below.
    containers: ContainerSettings = ContainerSettings()
    # Uploaded files: a table of the file, see below.
    files: FileSettings = FileSettings()
    # Batches of requests: a table of the file, see below.
    batches: BatchSettings = BatchSettings()
    # Vector stores: a table of the file, see below.
    vector_stores: VectorStoreSettings = VectorStoreSettings()


def data_directory(settings: Settings) -> Path:
    """Where the gateway keeps data that it cannot make again."""
    if settings.data_dir:
        return Path(settings.data_dir)
    return platformdirs.user_data_path(APP, appauthor=False)


def cache_directory(settings: Settings) -> Path:
    """Where the gateway keeps files that it can download again."""
    if settings.cache_dir:
        return Path(settings.cache_dir)
    return platformdirs.user_cache_path(APP, appauthor=False)


def models_directory(settings: Settings) -> Path:
    return cache_directory(settings) / "models"


# Of several chat templates, the one that is read, the better first.
TEMPLATE_NAMES = ("tool_use", "default")


def read_chat_template(settings: Settings) -> str | None:
    """The text of the chat template that the settings name."""
    if settings.chat_template is None:
        return None
    path = Path(settings.chat_template)
    try:
        text = path.read_text(encoding="utf-8")
        template = _configured_template(msgspec.json.decode(text)) if path.suffix == ".json" else text
    except OSError as missing:
        raise SettingsError(f"chat_template: cannot read {path}: {missing.strerror}") from None
    except (UnicodeError, msgspec.DecodeError) as broken:
        raise SettingsError(f"chat_template: cannot read {path}: {broken}") from None
    if not isinstance(template, str) or not template.strip():
        raise SettingsError(f"chat_template: {path} has no chat template. It must be a .jinja file or a tokenizer_config.json")
    return template


def _configured_template(config: Any) -> Any:
    """Of a tokenizer_config.json: one template, or several with names."""
    template = config.get("chat_template") if isinstance(config, dict) else None
    if not isinstance(template, list):
        return template
    named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
    return next((named[name] for name in (*TEMPLATE_NAMES, *named) if name in named), None)
