"""The calls of tools that the gateway runs, as Anthropic's servers show theirs: two blocks for each, the use and its result.

Items → blocks for an answer, and blocks → items for a history. A table has a row for each type of item.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from antiphon.partial_json import object_arguments
from antiphon.wire.hosted_items import CodeInterpreterCall, McpCall, McpListTools, ToolSearchOutput, WebSearchCall, type_of
from antiphon.wire.input_items import Item
from antiphon.wire.messages import Block
from antiphon.wire.responses import OutputItem, ToolSearchCall

# The names by which a model's uses are shown.
SEARCH, FETCH, CODE, FIND_TOOLS = "web_search", "web_fetch", "code_execution", "tool_search_tool"
# Why there is no result. Anthropic has a list of such codes for each tool, and this one in all of them.
UNAVAILABLE = "unavailable"
# How a model sees with what its code ended.
RETURNED = "(return code {code})"


class ServerCall(NamedTuple):
    # None: it is in another item.
    use: Block | None
    result: Block | None


# ---- items → blocks --------------------------------------------------------------------------------------------------


class ServerCalls:
    """Shows those of one message."""

    def __init__(self, search: str) -> None:
        """`search`: the client's name for the search for tools."""
        self._search = search
        # Of the latest search: what it found is an item of its own, right after it.
        self._searched = ""

    def show(self, item: OutputItem) -> ServerCall | None:
        """None: the item is none of a tool that a server runs, or its client sees nothing of it."""
        match item:
            case ToolSearchCall(id=id, arguments=arguments):
                self._searched = f"srvtoolu_{id}"
                use = {"type": "server_tool_use", "id": self._searched, "name": self._search, "input": arguments}
                return ServerCall(use, None)
            case ToolSearchOutput():
                return ServerCall(None, _found_tools(item, self._searched))
        show = SHOWN.get(type(item))
        # A call that was cut off has no result, and the next turn makes it anew.
        return None if show is None or getattr(item, "status", None) == "incomplete" else show(item)


def _call(item_id: str, name: str, input: dict[str, Any], content: Any, kind: str | None = None) -> ServerCall:
    id = f"srvtoolu_{item_id}"
    use = {"type": "server_tool_use", "id": id, "name": name, "input": input}
    return ServerCall(use, {"type": f"{kind or name}_tool_result", "tool_use_id": id, "content": content})


def _failed(kind: str) -> Block:
    return {"type": f"{kind}_tool_result_error", "error_code": UNAVAILABLE}


def _web_search(item: WebSearchCall) -> ServerCall:
    action, results = item.action, [] if item.results is UNSET else item.results
    if action["type"] != "search":
        return _web_fetch(item, action, results)
    found = [_web_result(each) for each in results]
    content = _failed(SEARCH) if item.status == "failed" else found
    return _call(item.id, SEARCH, {"query": "; ".join(action.get("queries") or [action["query"]])}, content)


def _web_result(found: Mapping[str, Any]) -> Block:
    """The text is for the model of this server alone: nothing else reads it again."""
    url, title = found["url"], found["title"]
    return {"type": "web_search_result", "title": title, "url": url, "encrypted_content": "", "page_age": None}


def _web_fetch(item: WebSearchCall, action: Mapping[str, Any], results: list[dict[str, Any]]) -> ServerCall:
    url = action["url"]
    text = "\n".join(str(each["text"]) for each in results)
    title = results[0]["title"] if results else None
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, "title": title}
    page = {"type": "web_fetch_result", "url": url, "retrieved_at": None, "content": document}
    return _call(item.id, FETCH, {"url": url}, _failed(FETCH) if item.status == "failed" else page)


def _code(item: CodeInterpreterCall) -> ServerCall:
    logs = [each["logs"] for each in item.outputs or () if each["type"] == "logs"]
    written = [each["file_id"] for each in item.outputs or () if each["type"] == "file"]
    failed = item.status != "completed" or any(each["type"] == "exception" for each in item.outputs or ())
    result = {
        "stdout": "\n".join(logs),
        "stderr": "",
        "return_code": int(failed),
        "content": [{"type": "code_execution_output", "file_id": id} for id in written],
    }
    return _call(item.id, CODE, {"code": item.code or ""}, {"type": "code_execution_result", **result})


def _mcp(item: McpCall) -> ServerCall:
    id = f"mcptoolu_{item.id}"
    input = msgspec.json.decode(object_arguments(item.arguments))
    use = {"type": "mcp_tool_use", "id": id, "name": item.name, "input": input, "server_name": item.server_label}
    text = item.output if item.output is not None else _error_text(item.error)
    content = [{"type": "text", "text": text}]
    is_error = item.error is not None or item.status == "failed"
    return ServerCall(use, {"type": "mcp_tool_result", "tool_use_id": id, "is_error": is_error, "content": content})


def _error_text(error: Any) -> str:
    return error if isinstance(error, str) else "" if error is None else msgspec.json.encode(error).decode()


def _found_tools(item: ToolSearchOutput, use_id: str) -> Block:
    names = [{"type": "tool_reference", "tool_name": name} for name in _names(item.tools)]
    content = {"type": "tool_search_tool_search_result", "tool_references": names}
    return {"type": "tool_search_tool_result", "tool_use_id": use_id, "content": content}


def item_to_listing(item: McpListTools) -> Block:
    """The tools of a server, for clients that send them back: it is not asked again."""
    tools = [
        {
            "name": tool.name,
            "description": None if tool.description is UNSET else tool.description,
            "input_schema": tool.input_schema,
        }
        for tool in item.tools
    ]
    return {"type": "mcp_tool_listing", "mcp_server_name": item.server_label, "tools": tools}


def _names(tools: list[dict[str, Any]]) -> list[str]:
    """Of the tools themselves, and of those in namespaces."""
    inner = [name for tool in tools for name in _names(tool["tools"] if isinstance(tool.get("tools"), list) else [])]
    return [tool["name"] for tool in tools if isinstance(tool.get("name"), str) and "tools" not in tool] + inner


SHOWN: Mapping[type[Any], Callable[[Any], ServerCall | None]] = {
    WebSearchCall: _web_search,
    CodeInterpreterCall: _code,
    McpCall: _mcp,
}


# ---- blocks → items --------------------------------------------------------------------------------------------------


def blocks_to_items(use: Block, result: Block) -> list[Item]:
    """Those of a call that a client sends back. None: it is of a tool that is not known here."""
    name = str(use.get("name"))
    if name.startswith(FIND_TOOLS):
        return _read_tool_search(use, result)
    read = READ.get("mcp" if use["type"] == "mcp_tool_use" else name)
    return [] if read is None else [read(use, result)]


def _read_tool_search(use: Block, result: Block) -> list[Item]:
    """The tools have only their names here: their definitions are among those of the request."""
    content = result.get("content")
    references = content.get("tool_references") if isinstance(content, dict) else None
    found = [each for each in references if isinstance(each, dict)] if isinstance(references, list) else []
    names = [{"type": "function", "name": str(each.get("tool_name"))} for each in found]
    call = {"type": type_of(ToolSearchCall), "arguments": use.get("input") or {}, "execution": "server"}
    return [call, {"type": type_of(ToolSearchOutput), "tools": names, "execution": "server"}]


def _input(use: Block, name: str) -> str:
    given = use.get("input")
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


def _status(result: Block) -> str:
    content = result.get("content")
    is_error = isinstance(content, dict) and str(content.get("type")).endswith("_error")
    return "failed" if is_error else "completed"


def _read_search(use: Block, result: Block) -> Item:
    content = result.get("content")
    found = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    sources = [{"type": "url", "url": each["url"]} for each in found if isinstance(each.get("url"), str)]
    action = {"type": "search", "query": _input(use, "query"), "sources": sources}
    return {"type": "web_search_call", "status": _status(result), "action": action}


def _read_fetch(use: Block, result: Block) -> Item:
    action = {"type": "open_page", "url": _input(use, "url")}
    return {"type": "web_search_call", "status": _status(result), "action": action}


def _read_code(use: Block, result: Block) -> Item:
    content = result.get("content")
    ran = content if isinstance(content, dict) and isinstance(content.get("stdout"), str) else None
    # Also where nothing was printed: the model has seen that, too.
    outputs = [] if ran is None else [{"type": "logs", "logs": _printed(ran)}]
    made = {"type": "code_interpreter_call", "code": _input(use, "code"), "container_id": "", "outputs": outputs}
    return {**made, "status": _status(result)}


def _printed(result: Mapping[str, Any]) -> str:
    """As the model has seen it: both streams and, where they do not say that it failed, with what code it ended."""
    texts = [text for text in (result.get("stdout"), result.get("stderr")) if isinstance(text, str) and text]
    code = result.get("return_code")
    # Code that raises ends with 1, and prints why. This server shows the model nothing more.
    says_why = code in (None, 0) or (code == 1 and texts)
    return "\n".join(texts if says_why else [*texts, RETURNED.format(code=code)])


def _read_mcp(use: Block, result: Block) -> Item:
    content = result.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(str(each.get("text", "")) for each in parts if isinstance(each, dict))
    outcome = {"error": text} if result.get("is_error") else {"output": text}
    return {
        "type": "mcp_call",
        "id": str(use.get("id")),
        "server_label": str(use.get("server_name")),
        "name": str(use.get("name")),
        "arguments": msgspec.json.encode(use.get("input") or {}).decode(),
        **outcome,
    }


READ: Mapping[str, Callable[[Block, Block], Item]] = {
    SEARCH: _read_search,
    FETCH: _read_fetch,
    CODE: _read_code,
    "mcp": _read_mcp,
}
