"""What an `mcp` tool has that only its server may see: the token, the headers, and the part of the URL after its origin.

None of it is echoed, stored or recorded. Every request sends it again.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from antiphon.core.protocols.responses.limits import WITH_TOOLS
from antiphon.wire import UNREADABLE
from antiphon.wire.responses import CreateResponse

Tool = dict[str, Any]

REDACTED = "<redacted>"
SECRETS = ("authorization", "headers", "server_url")
# For a body that is no JSON: the strings after these names, and all that may be in an object.
_IN_TEXT = re.compile(
    rb'("(?:authorization|server_url)"\s*:\s*)"(?:[^"\\]|\\.)*"?|("headers"\s*:\s*)\{(?:[^{}"]|"(?:[^"\\]|\\.)*"?)*\}?',
    re.DOTALL,
)


def public_url(url: str) -> str:
    """Paths and queries of servers have keys in them."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return REDACTED
    host = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}"
    return url if url.rstrip("/") == origin else f"{origin}/{REDACTED}"


def is_redacted(url: Any) -> bool:
    """It was shown by `public_url`, and is not where a server is."""
    return isinstance(url, str) and (url == REDACTED or url.endswith(f"/{REDACTED}"))


def without_secrets(tool: Tool) -> Tool:
    """The same tool, unless it is of this type, or has such tools in it. In a namespace they are left out, and still shown."""
    if isinstance(inner := tool.get("tools"), list):
        tool = {**tool, "tools": tools_without_secrets(inner)}
    if tool.get("type") != "mcp":
        return tool
    public = {name: value for name, value in tool.items() if name not in ("authorization", "headers")}
    return public | {"server_url": public_url(url)} if isinstance(url := tool.get("server_url"), str) else public


def tools_without_secrets(tools: Any) -> Any:
    if not isinstance(tools, list):
        return tools
    return [without_secrets(tool) if isinstance(tool, dict) else tool for tool in tools]


def has_secrets(request: CreateResponse) -> bool:
    if not request.tools and not isinstance(request.input, list):
        return False
    return any(_has_secrets(tool) for tool in tools_of_request(request))


def _has_secrets(tool: Tool) -> bool:
    if tool.get("type") == "mcp" and any(tool.get(name) for name in SECRETS):
        return True
    inner = tool.get("tools")
    return isinstance(inner, list) and any(_has_secrets(each) for each in inner if isinstance(each, dict))


def tools_of_request(request: CreateResponse) -> Iterator[Tool]:
    """Also those in its input items, and not those in namespaces."""
    yield from request.tools or ()
    for item in request.input if isinstance(request.input, list) else ():
        if item.get("type") in WITH_TOOLS and isinstance(tools := item.get("tools"), list):
            yield from (tool for tool in tools if isinstance(tool, dict))


def body_without_secrets(body: bytes) -> bytes:
    """The body of a request, whether it could be read or not."""
    if not any(name.encode() in body for name in SECRETS):
        return body
    try:
        value = msgspec.json.decode(body)
        return msgspec.json.encode(_public_request(value)) if isinstance(value, dict) else body
    except UNREADABLE:
        return _IN_TEXT.sub(_redact, body)


def _public_request(value: dict[str, Any]) -> dict[str, Any]:
    public = {**value, "tools": tools_without_secrets(value["tools"])} if "tools" in value else value
    if isinstance(items := value.get("input"), list):
        public["input"] = [_public_item(item) for item in items]
    return public


def _public_item(item: Any) -> Any:
    if not isinstance(item, dict) or item.get("type") not in WITH_TOOLS:
        return item
    return {**item, "tools": tools_without_secrets(item.get("tools"))}


def _redact(found: re.Match[bytes]) -> bytes:
    return found[1] + b'"' + REDACTED.encode() + b'"' if found[1] is not None else found[2] + b"{}"
