"""Responses as messages, and errors as Anthropic's clients know them."""

from typing import Any

import msgspec
import pytest

from antiphon.core.protocols.messages.answer import message_usage, response_to_message, stop_reason
from antiphon.core.protocols.messages.facts import MessageFacts
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.errors import (
    ApiError,
    BodyTooLarge,
    ContextLengthExceeded,
    EngineBusy,
    EngineError,
    EngineFailure,
    EngineStalled,
    InvalidRequest,
    NotFound,
    RateLimited,
    Unauthorized,
)
from antiphon.wire.hosted_items import CodeInterpreterCall, McpCall, McpListTools, ToolSearchOutput, WebSearchCall
from antiphon.wire.responses import (
    CreateResponse,
    FunctionCall,
    IncompleteDetails,
    InputTokensDetails,
    OutputItem,
    OutputMessage,
    OutputRefusal,
    OutputText,
    OutputTokensDetails,
    ReasoningOptions,
    Response,
    ToolSearchCall,
    ToolUsage,
    Usage,
    WebSearchUsage,
)

TEXT = OutputMessage("msg_1", "completed", content=[OutputText("Hi")])
CALL = FunctionCall("fc_1", "call_1", "look", '{"at": "it"}', "completed")
REFUSAL = OutputMessage("msg_1", "completed", content=[OutputRefusal("No.")])


def response(*output: OutputItem, **members: Any) -> Response:
    return Response(id="resp_1", created_at=1, model="m", status="completed", output=list(output), **members)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (response(TEXT), "end_turn"),
        (response(TEXT, CALL), "tool_use"),
        (response(REFUSAL), "refusal"),
        (response(TEXT, CALL, incomplete_details=IncompleteDetails("max_output_tokens")), "max_tokens"),
        (response(TEXT, incomplete_details=IncompleteDetails("content_filter")), "refusal"),
    ],
)
def test_why_a_message_has_stopped(made: Response, reason: str) -> None:
    assert stop_reason(made) == reason


def test_tokens_that_came_from_a_cache_are_counted_apart() -> None:
    usage = Usage(100, InputTokensDetails(60, 10), 7, OutputTokensDetails(), 107)
    found = message_usage(response(TEXT, usage=usage))
    counts = found.input_tokens, found.cache_read_input_tokens, found.cache_creation_input_tokens, found.output_tokens
    assert counts == (30, 60, 10, 7)
    assert "server_tool_use" not in msgspec.to_builtins(found)


def test_searches_and_pages_are_counted() -> None:
    used = ToolUsage(web_search=WebSearchUsage(2))
    usage = Usage(1, InputTokensDetails(), 1, OutputTokensDetails(), 2)
    page = WebSearchCall("ws_1", "completed", {"type": "open_page", "url": "https://a.example"})
    found = message_usage(response(page, usage=usage, tool_usage=used)).server_tool_use
    assert msgspec.to_builtins(found) == {"web_search_requests": 2, "web_fetch_requests": 1}


def blocks(*output: OutputItem) -> list[Any]:
    request = CreateResponse(reasoning=ReasoningOptions(effort="medium"))
    return list(msgspec.to_builtins(response_to_message(response(*output), request, MessageFacts()))["content"])


def test_a_search_is_shown_as_a_use_and_its_result() -> None:
    results = [{"url": "https://a.example", "title": "A", "text": "Rome is old."}]
    action = {"type": "search", "query": "Rome", "queries": ["Rome"]}
    use, result = blocks(WebSearchCall("ws_1", "completed", action, results))
    assert use == {"type": "server_tool_use", "id": "srvtoolu_ws_1", "name": "web_search", "input": {"query": "Rome"}}
    found = {"type": "web_search_result", "title": "A", "url": "https://a.example", "encrypted_content": "", "page_age": None}
    assert result == {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_ws_1", "content": [found]}


def test_a_page_and_a_failed_search_are_shown() -> None:
    results = [{"url": "https://a.example", "title": "A", "text": "Rome is old."}]
    page = WebSearchCall("ws_1", "completed", {"type": "open_page", "url": "https://a.example"}, results)
    failed = WebSearchCall("ws_2", "failed", {"type": "search", "query": "Rome", "queries": []})
    shown = blocks(page, failed)
    assert shown[0]["name"] == "web_fetch"
    assert shown[1]["content"]["content"]["source"]["data"] == "Rome is old."
    assert shown[3]["content"] == {"type": "web_search_tool_result_error", "error_code": "unavailable"}


def test_code_is_shown_with_what_it_printed() -> None:
    use, result = blocks(CodeInterpreterCall("ci_1", "completed", "c", "print(1)", [{"type": "logs", "logs": "1"}]))
    assert (use["name"], use["input"]) == ("code_execution", {"code": "print(1)"})
    printed = {"stdout": "1", "stderr": "", "return_code": 0, "content": []}
    assert result["content"] == {"type": "code_execution_result", **printed}


def test_a_call_of_an_mcp_server_is_shown_and_its_list_is_not() -> None:
    call = McpCall("mcp_1", "s", "echo", '{"a": 1}', status="completed", output="1")
    use, result = blocks(McpListTools("mcpl_1", "s", []), call)
    assert use == {"type": "mcp_tool_use", "id": "mcptoolu_mcp_1", "name": "echo", "input": {"a": 1}, "server_name": "s"}
    assert (result["is_error"], result["content"]) == (False, [{"type": "text", "text": "1"}])


def test_tools_that_were_found_are_named() -> None:
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": "a"},
        {"type": "namespace", "name": "n", "tools": [{"name": "b"}]},
    ]
    search = ToolSearchCall("tsc_1", None, {"query": "a"}, "completed", "server")
    use, result = blocks(search, ToolSearchOutput("tso_1", None, tools, "completed"))
    assert (use["input"], result["tool_use_id"]) == ({"query": "a"}, use["id"])
    assert [each["tool_name"] for each in result["content"]["tool_references"]] == ["a", "b"]


def test_citations_are_those_of_the_web() -> None:
    cited = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.example", "title": "A"}
    part = OutputText("Hi", annotations=[cited, {"type": "file_path", "file_id": "f", "index": 0}])
    (block,) = blocks(OutputMessage("msg_1", "completed", content=[part]))
    assert [(each["url"], each["title"]) for each in block["citations"]] == [("https://a.example", "A")]


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("No."), 400, "invalid_request_error"),
        (Unauthorized("No."), 401, "authentication_error"),
        (NotFound("No."), 404, "not_found_error"),
        (BodyTooLarge("No."), 413, "request_too_large"),
        (RateLimited("No.", retry_after=3), 429, "rate_limit_error"),
        (EngineError("No."), 502, "api_error"),
        (EngineBusy("No.", retry_after=3), 529, "overloaded_error"),
        (EngineStalled("No."), 504, "timeout_error"),
    ],
)
def test_an_error_has_anthropics_form(error: ApiError, status: int, kind: str) -> None:
    answer = MESSAGES.error(error, "req_1")
    body = {"type": "error", "error": {"type": kind, "message": "No."}, "request_id": "req_1"}
    assert (answer.status, msgspec.json.decode(answer.body)) == (status, body)
    assert answer.headers.get("Retry-After") == error.headers.get("Retry-After")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("the request has 5000 tokens, and 4096 tokens are allowed", "prompt is too long: 5000 tokens > 4096 maximum"),
        ("context size exceeded", "prompt is too long: It is too long."),
    ],
)
def test_a_prompt_that_is_too_long_is_said_in_words_that_claude_code_knows(words: str, message: str) -> None:
    error = ContextLengthExceeded("It is too long.", failure=EngineFailure(400, "", words))
    assert msgspec.json.decode(MESSAGES.error(error).body)["error"] == {"type": "invalid_request_error", "message": message}
