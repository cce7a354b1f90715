"""What the caller of an exchange has to do next."""

from typing import Literal

from msgspec import Struct

from antiphon.core.checks.work import CheckWork
from antiphon.core.items.usage import Uncounted
from antiphon.core.toolbox.mcp_servers import McpServer
from antiphon.wire.chat import ChatRequest


class ToolCall(Struct, frozen=True):
    """A call of a tool that the gateway runs, as the client knows the tool."""

    id: str
    kind: str
    name: str
    namespace: str | None
    arguments: str
    # Running it twice does what running it once does.
    idempotent: bool = True


# Why an engine is asked.
AskReason = Literal[
    # The first time.
    "first",
    # The answer before was rejected.
    "repair",
    # The engine failed, which has taught how to ask it.
    "lesson",
    # The prompt was too long, and is shorter now.
    "truncation",
    # The engine before is not there.
    "next_engine",
    # The thought took all tokens. Now the model answers without one.
    "no_thought",
    # Tools that the gateway runs have results.
    "tools",
    # The model has announced a call, and made none.
    "announced",
]


class Ask(Struct, frozen=True):
    """Send `chat` to the engine of this number. Then `refused()`, or `receive()` its body and `finish()`."""

    chat: ChatRequest
    engine: int
    reason: AskReason = "first"


class AwaitProbe(Struct, frozen=True):
    """A probe is about to show whether this model sees tools. Wait for it, within bounds, and give what is known then of the
    engine of this number to `probed()`."""

    engine: int
    model: str


class Check(Struct, frozen=True):
    """Run the work, which may be slow, and give its outcome to `checked()`."""

    work: CheckWork


class RunTools(Struct, frozen=True):
    """Run these calls, and give each result to `tool_result()`, in any order."""

    calls: tuple[ToolCall, ...]


class ListTools(Struct, frozen=True):
    """List the tools of these MCP servers, and give each list, or why there is none, to `listed()`, in any order."""

    servers: tuple[McpServer, ...]
    # The client gets an item for one of them, at least. None for those that the operator attached.
    has_items: bool = True


class Estimate(Struct, frozen=True):
    """Estimate the usage of these answers, and give it to `estimated()`."""

    answers: tuple[Uncounted, ...]


class Count(Struct, frozen=True):
    """Count the tokens of this prompt, as the engine of this number counts them, and give their number to `counted()`."""

    chat: ChatRequest
    engine: int


class Compact(Struct, frozen=True):
    """Run the exchange `compaction` to its end, without showing its events; then `compacted()`."""


class Done(Struct, frozen=True):
    """Nothing more is to be done: `end()`, store the response, and send the terminal event."""


DONE = Done()
COMPACT = Compact()
Step = Ask | AwaitProbe | Check | ListTools | RunTools | Estimate | Count | Compact | Done
