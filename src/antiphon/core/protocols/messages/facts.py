"""What of a request the answer to it depends on, beside the request that it was read to."""

from typing import Any

from msgspec import Struct, field

from antiphon.core.protocols.messages.places import Places


class MessageFacts(Struct):
    places: Places = field(default_factory=Places)
    # Thoughts are shown without their text, by their signatures alone.
    hides_thoughts: bool = False
    # The sets of the client's tools: their calls say to which of them they belong.
    toolsets: frozenset[str] = frozenset()
    # The client's name for the search for tools.
    search: str = ""
    # The answer has lists of the tools of MCP servers, for clients that send them back.
    shows_listings: bool = False
    # The prompt is to be in the engine's cache. Nothing that the model writes is shown.
    only_reads: bool = False
    # The edits of the context that were made, each as the answer shows it. None: none were asked for.
    edits: list[dict[str, Any]] | None = None
