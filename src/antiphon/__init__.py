"""Antiphon: OpenAI's Responses API in front of any Chat Completions engine.

As a program it is a server: `antiphon serve`. As a library it is the `Exchange`, which does no I/O: docs/library.md. What is
named in `__all__` is the library; everything else may change.
"""

# ruff: noqa: F405 (the names of the star import)

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.library import *  # noqa: F403

__all__ = [
    "AnyEvent",
    "Ask",
    "AwaitProbe",
    "ChatRequest",
    "Check",
    "CheckOutcome",
    "CheckWork",
    "CodeFile",
    "Compact",
    "Count",
    "CreateResponse",
    "Dialect",
    "Done",
    "EngineKnowledge",
    "Environment",
    "Estimate",
    "Exchange",
    "InputTokensDetails",
    "ListTools",
    "Listing",
    "McpListError",
    "McpServer",
    "McpTool",
    "MessageEncoder",
    "Model",
    "OutputTokensDetails",
    "PlainDelta",
    "Response",
    "RunTools",
    "Sealer",
    "SseEncoder",
    "Step",
    "ToolCall",
    "ToolResult",
    "Uncounted",
    "Usage",
    "body_to_request",
    "chat_to_bytes",
    "dialects",
    "errors",
    "events",
    "expand",
    "http_answer_to_error",
    "new_id",
    "run_check",
    "run_exchange",
]


def __getattr__(name: str) -> Any:
    """Not imported before: a command such as `antiphon ps` does not need the translation, which takes half of its time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from antiphon import library

    return getattr(library, name)
