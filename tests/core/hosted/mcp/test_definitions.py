"""The `mcp` tool of a request: its members, what is refused, and what the response shows of it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from support.mcp_tools import CITY, FORECAST, REPORT, WEATHER, FakeServers

from antiphon.core.hosted.mcp.tools import ToolLists
from antiphon.core.prompt.stored_form import items_to_stored_form
from antiphon.core.toolbox.mcp_servers import Listing, McpServer, body_without_secrets, has_secrets, public_url
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.wire.hosted_items import McpTool
from antiphon.wire.responses import CreateResponse

TOOLS = Listing([FORECAST, REPORT, McpTool("erase", CITY, annotations={"readOnlyHint": False})])


def box_of(*tools: dict[str, Any], listing: Listing = TOOLS, labels: Sequence[str] = ("files",)) -> Toolbox:
    lists = ToolLists([])
    for tool in tools:
        lists.add(str(tool.get("server_label")), listing, attached=False)
    servers = FakeServers(labels=labels, check_url=lambda url: None if url.startswith("https:") else "it must be https")
    return tools_to_box(tools, definitions={"mcp": servers.define}, lists=lists)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"server_label": None}, "server_label"),
        ({"server_label": ""}, "server_label"),
        ({"server_label": 5}, "server_label"),
        ({"server_url": None}, "server_url"),
        ({"server_url": 5}, "server_url"),
        ({"server_url": "http://weather.example"}, "server_url"),
        ({"connector_id": "connector_gmail", "server_url": None}, "connector_id"),
        ({"tunnel_id": "t", "server_url": None}, "tunnel_id"),
        ({"authorization": 5}, "authorization"),
        ({"authorization": "a\r\nb: c"}, "authorization"),
        ({"headers": ["a"]}, "headers"),
        ({"headers": {"a": 1}}, "headers.a"),
        ({"headers": {"a": "b\nc"}}, "headers"),
        ({"headers": {"a b": "c"}}, "headers"),
        ({"headers": {"Host": "c"}}, "headers"),
        ({"headers": {"Expect": "100-continue"}}, "headers"),
        ({"allowed_tools": "all"}, "allowed_tools"),
        ({"allowed_tools": [1]}, "allowed_tools[0]"),
        ({"allowed_tools": {"tool_names": "a"}}, "allowed_tools.tool_names"),
        ({"allowed_tools": {"read_only": "yes"}}, "allowed_tools.read_only"),
        ({"require_approval": "sometimes"}, "require_approval"),
        ({"require_approval": {"never": {"tool_names": [1]}}}, "require_approval.never.tool_names[0]"),
        ({"server_description": 5}, "server_description"),
        ({"defer_loading": "yes"}, "defer_loading"),
        ({"allowed_callers": ["somebody"]}, "allowed_callers[0]"),
    ],
)
def test_a_member_that_is_wrong_is_refused_by_its_name(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        box_of(WEATHER, {**WEATHER, "server_label": "other", **members})
    assert refused.value.param == f"tools[1].{param}"


def test_no_message_has_a_secret_in_it() -> None:
    for members in ({"headers": {"X-Key": "s3cret\n"}}, {"authorization": "s3cret\n"}):
        with pytest.raises(InvalidRequest) as refused:
            box_of({**WEATHER, **members})
        assert "s3cret" not in refused.value.message


def test_two_servers_cannot_have_one_label() -> None:
    with pytest.raises(InvalidRequest) as refused:
        box_of(WEATHER, {**WEATHER, "server_url": "https://other.example"})
    assert refused.value.param == "tools[1].server_label"
    assert "'weather'" in refused.value.message


def test_a_server_of_the_operator_needs_no_url_and_is_not_named_to_those_who_do_not_know_it() -> None:
    assert list(box_of({"type": "mcp", "server_label": "files"}).servers.places) == ["files"]
    with pytest.raises(InvalidRequest) as refused:
        box_of({"type": "mcp", "server_label": "fils"})
    assert (refused.value.param, refused.value.code) == ("tools[0].server_url", "missing_required_parameter")
    assert "'fils'" in refused.value.message
    assert "files" not in refused.value.message


# ---- which tools are offered, and how --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (None, ["forecast", "report", "erase"]),
        ([], []),
        (["report"], ["report"]),
        ({}, ["forecast", "report", "erase"]),
        ({"tool_names": ["report", "forecast"]}, ["forecast", "report"]),
        ({"read_only": True}, ["forecast"]),
        ({"read_only": False}, ["report", "erase"]),
        ({"read_only": True, "tool_names": ["report"]}, []),
    ],
)
def test_only_allowed_tools_are_offered(allowed: Any, names: list[str]) -> None:
    assert [native.name for native in box_of({**WEATHER, "allowed_tools": allowed}).offered.names] == names


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (None, {"forecast", "report", "erase"}),
        ("always", {"forecast", "report", "erase"}),
        ("never", set()),
        ({}, {"forecast", "report", "erase"}),
        ({"never": {}}, {"forecast", "report", "erase"}),
        ({"never": {"read_only": True}}, {"report", "erase"}),
        ({"never": {"tool_names": ["report"]}}, {"forecast", "erase"}),
        ({"always": {"tool_names": ["erase"]}, "never": {"read_only": False}}, {"forecast", "erase"}),
        ({"always": {"read_only": False}}, {"forecast", "report", "erase"}),
    ],
)
def test_a_call_needs_approval_unless_the_client_says_otherwise(rule: Any, names: set[str]) -> None:
    assert {native.name for native in box_of({**WEATHER, "require_approval": rule}).needs_approval} == names


def test_names_for_the_engine_are_legal_short_and_those_of_the_server() -> None:
    listing = Listing([McpTool("get.weather", CITY), McpTool("x" * 100, CITY), McpTool("forecast", CITY)])
    box = box_of(WEATHER, {**WEATHER, "server_label": "other"}, listing=listing)
    assert [name for name in box.offered.functions if name.endswith("forecast")] == ["weather__forecast", "other__forecast"]
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in box.offered.functions)
    assert len(box.offered.functions) == 6
    assert list(box_of(WEATHER, listing=listing).offered.functions) == list(box.offered.functions)[:3], (
        "the same in every request"
    )


def test_a_tool_whose_schema_is_none_takes_any_object() -> None:
    box = box_of(
        WEATHER, listing=Listing([McpTool("a", None), McpTool("b", {"properties": {}}), McpTool("c", {"type": "array"})])
    )
    assert [tool.function.parameters for tool in box.offered.functions.values()] == [{"type": "object", "properties": {}}] * 3
    box = box_of(WEATHER, listing=Listing([McpTool("a", {**CITY, "type": ["object", "null"]})]))
    assert box.offered.functions["weather__a"].function.parameters == CITY


def test_hints_say_which_tools_may_run_twice() -> None:
    again = McpTool("again", CITY, annotations={"idempotentHint": True})
    box = box_of(WEATHER, listing=Listing([FORECAST, REPORT, again]))
    assert box.not_idempotent == {ToolIdentity("mcp", "report", "weather")}


def test_a_server_that_only_programs_may_call_is_left_out_with_a_notice() -> None:
    box = box_of({**WEATHER, "allowed_callers": ["programmatic"]})
    assert (box.offered.functions, box.servers.unlisted) == ({}, [])
    assert "only programs may call it" in box.notices[0]


# ---- what others see of it -------------------------------------------------------------------------------------------


def test_the_echo_has_defaults_and_no_secrets() -> None:
    given = {"type": "mcp", "server_label": "weather", "server_url": "https://weather.example/key-1/mcp?key=2"}
    box = box_of({**given, "authorization": "token", "headers": {"X-Key": "3"}})
    assert box.in_response == [
        {
            "type": "mcp",
            "server_label": "weather",
            "server_url": "https://weather.example/<redacted>",
            "allowed_tools": None,
            "require_approval": "always",
            "headers": None,
        }
    ]
    kept = {"allowed_tools": ["a"], "require_approval": {"never": {"read_only": True}}, "server_description": "Weather."}
    assert box_of({**given, **kept}).in_response[0].items() >= kept.items()


SECRET = {**WEATHER, "server_url": "https://weather.example/s3cret", "authorization": "s3cret", "headers": {"X": "s3cret"}}
SHOWN = {**WEATHER, "server_url": "https://weather.example/<redacted>"}


def namespace(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "namespace", "name": "n", "description": "N.", "tools": [*tools]}


@pytest.mark.parametrize("levels", [1, 2])
def test_a_server_in_a_namespace_is_left_out_and_shown_without_its_secrets(levels: int) -> None:
    given, shown = SECRET, SHOWN
    for _ in range(levels):
        given, shown = namespace(given), namespace(shown)
    box = tools_to_box([given])
    assert box.in_response == [shown]
    assert "was left out" in box.notices[0]
    item = {"type": "additional_tools", "tools": [given]}
    assert has_secrets(CreateResponse(tools=[given], input="Hi"))
    assert has_secrets(CreateResponse(input=[item]))
    assert not has_secrets(CreateResponse(tools=[namespace({"type": "function", "name": "f"})], input="Hi"))
    body = msgspec.json.encode({"input": [item], "tools": [given]})
    assert msgspec.json.decode(body_without_secrets(body)) == {"input": [{**item, "tools": [shown]}], "tools": [shown]}
    assert items_to_stored_form([item], lambda prefix: "id")[0]["tools"] == [shown]


def test_a_function_in_a_namespace_keeps_a_parameter_that_is_named_like_a_secret() -> None:
    function = {"type": "function", "name": "f", "parameters": {"properties": {"authorization": {"type": "string"}}}}
    assert tools_to_box([namespace(function)]).in_response == [namespace({**function, "description": None, "strict": None})]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://weather.example", "https://weather.example"),
        ("https://weather.example/", "https://weather.example/"),
        ("https://user:pass@weather.example/", "https://weather.example/<redacted>"),
        ("https://weather.example:8443/?k=1", "https://weather.example:8443/<redacted>"),
        ("http://[::1]:80/mcp", "http://[::1]:80/<redacted>"),
        ("http://[::1", "<redacted>"),
        ("http://a:port/", "<redacted>"),
    ],
)
def test_a_url_is_shown_to_its_origin(url: str, shown: str) -> None:
    assert public_url(url) == shown


def test_the_server_of_a_label_has_its_secrets() -> None:
    tool = {**WEATHER, "authorization": "token", "headers": {"X-Key": "3"}}
    box = box_of({"type": "function", "name": "f"}, tool, {"type": "mcp", "server_label": "files"})
    assert {label: given.server for label, given in box.servers.definitions.items()} == {
        "weather": McpServer("weather", tool["server_url"], {"X-Key": "3"}, "token"),
        "files": McpServer("files"),
    }


@pytest.mark.parametrize("cut", [0, 1, 12, 40], ids=lambda cut: f"cut by {cut}")
def test_a_body_loses_its_secrets_also_if_it_is_no_json(cut: int) -> None:
    body = (
        b'{"input": "My headers", "tools": [{"type": "mcp", "server_label": "w", "authorization": "s3cret", '
        b'"headers": {"X": "s3cret", "Y\\"": "s3cret}"}, "server_url": "https://u:s3cret@h/s3cret"}]}'
    )
    public = body_without_secrets(body[: len(body) - cut])
    assert b"s3cret" not in public
    assert b"My headers" in public
    assert b'"server_label"' in public


def test_a_body_that_is_nested_too_deeply_loses_its_secrets() -> None:
    levels = 100_000
    inner = b'{"type": "mcp", "authorization": "s3cret"}'
    body = b'{"tools": [' + b'{"type": "namespace", "tools": [' * levels + inner + b"]}" * levels + b"]}"
    assert b"s3cret" not in body_without_secrets(body)
