"""The settings of built-in tools that the gateway runs: the tables `[tools.TYPE]` of antiphon.toml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


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
