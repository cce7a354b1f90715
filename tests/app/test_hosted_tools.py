"""The built-in tools of the API, as the settings ask for them: what is missing is said at the start, by its name."""

from pathlib import Path

import pytest

from antiphon.app import hosted_tools
from antiphon.app.checked_settings import load_settings
from antiphon.app.hosted_tools import TOOLS, ToolSetup, check_file_search, check_tools, check_web_search
from antiphon.core.hosted.rows import BY_KIND
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.tables import FileSearchSettings, ToolSettings, WebSearchSettings


def test_without_a_table_no_tool_is_run() -> None:
    assert Settings().tools.web_search is None


@pytest.mark.parametrize(
    "chosen",
    [
        WebSearchSettings(backend="searxng", url="http://127.0.0.1:8888/searx"),
        WebSearchSettings(backend="brave", key="k"),
        WebSearchSettings(backend="tavily", key="k", url="https://proxy.example"),
        WebSearchSettings(mcp="web", tool="search"),
        WebSearchSettings(backend="mcp", mcp="web", tool="search"),
    ],
)
def test_what_can_search_is_taken(chosen: WebSearchSettings) -> None:
    check_web_search(chosen)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (WebSearchSettings(), "tools.web_search.backend is missing. It must be one of: searxng, brave, tavily, mcp"),
        (WebSearchSettings(backend="searxng"), "tools.web_search.url is missing: the backend searxng needs the address"),
        (WebSearchSettings(backend="searxng", url="localhost"), "tools.web_search.url must be http://HOST:PORT"),
        (WebSearchSettings(backend="brave"), "tools.web_search.key is missing: the backend brave needs one"),
        (WebSearchSettings(backend="tavily", key="$NOT_SET_ANYWHERE"), "needs the environment variable NOT_SET_ANYWHERE"),
        (WebSearchSettings(backend="tavily", key="${NOT_SET_ANYWHERE}"), "needs the environment variable NOT_SET_ANYWHERE"),
        (WebSearchSettings(mcp="web"), "tools.web_search.tool is missing"),
        (WebSearchSettings(page_hosts=("https://wiki/",)), "tools.web_search.page_hosts must be hosts or networks"),
        (WebSearchSettings(page_hosts=("ada@wiki",)), "tools.web_search.page_hosts must be hosts or networks"),
        (WebSearchSettings(backend="mcp", tool="search"), "tools.web_search.mcp is missing"),
    ],
)
def test_what_is_missing_is_named(chosen: WebSearchSettings, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        check_web_search(chosen)
    assert message in str(error.value)


def test_a_key_that_is_empty_in_the_environment_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = WebSearchSettings(backend="brave", key="$SEARCH_KEY")
    monkeypatch.setenv("SEARCH_KEY", "s3cret")
    check_web_search(chosen)
    monkeypatch.setenv("SEARCH_KEY", "")
    with pytest.raises(SettingsError, match=r"tools\.web_search\.key is missing"):
        check_web_search(chosen)


def test_a_file_is_checked_as_a_whole_and_its_secrets_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('[tools.web_search]\nbackend = "brave"\nkey = "k"\npage_hosts = "wiki.example"\n')
    chosen = load_settings({}, file).tools.web_search
    assert chosen == WebSearchSettings(backend="brave", key="k", page_hosts=("wiki.example",))
    file.write_text('[tools.web_search]\nbackend = "brave"\n')
    with pytest.raises(SettingsError, match=r"tools\.web_search\.key is missing"):
        load_settings({}, file)
    file.write_text("[tools.web_search]\nkey = 12345678\n")
    with pytest.raises(SettingsError, match=r"^tools\.web_search\.key must be a text \(") as error:
        load_settings({}, file)
    assert "12345678" not in str(error.value)


def test_the_mcp_server_has_to_be_in_the_file_too(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    table = '[tools.web_search]\nmcp = "brave"\ntool = "search"\n'
    server = '[mcp.servers.{name}]\ncommand = "brave-search-mcp"\n'
    file.write_text(table + server.format(name="braves"))
    message = r"tools\.web_search\.mcp: there is no \[mcp\.servers\.brave\]\. Did you mean braves\?"
    with pytest.raises(SettingsError, match=message):
        load_settings({}, file)
    file.write_text(table + server.format(name="brave"))
    chosen = load_settings({}, file).tools.web_search
    assert chosen is not None
    assert (chosen.mcp, chosen.tool) == ("brave", "search")


@pytest.mark.parametrize(
    "chosen", [FileSearchSettings(), FileSearchSettings(mcp="docs", tool="find", stores_argument="stores")]
)
def test_files_are_searched_by_the_gateway_or_by_a_server(chosen: FileSearchSettings) -> None:
    check_file_search(chosen)


@pytest.mark.parametrize(
    ("chosen", "missing"), [(FileSearchSettings(mcp="docs"), "tool"), (FileSearchSettings(tool="find"), "mcp")]
)
def test_a_server_without_a_tool_or_a_tool_without_a_server_is_named(chosen: FileSearchSettings, missing: str) -> None:
    with pytest.raises(SettingsError, match=rf"tools\.file_search\.{missing} is missing"):
        check_file_search(chosen)


def test_the_mcp_server_that_searches_files_has_to_be_in_the_file_too(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('[tools.file_search]\nmcp = "docs"\ntool = "find"\n[mcp.servers.doc]\ncommand = "docs-mcp"\n')
    with pytest.raises(
        SettingsError, match=r"tools\.file_search\.mcp: there is no \[mcp\.servers\.docs\]\. Did you mean doc\?"
    ):
        load_settings({}, file)


def test_every_tool_that_can_be_set_up_has_a_row_of_its_own() -> None:
    assert {tool.table for tool in TOOLS} <= BY_KIND.keys()
    assert [tool.settings(ToolSettings()) for tool in TOOLS] == [None] * len(TOOLS)
    # Those whose settings say how they are run: each has a table, and each table a row.
    assert {*ToolSettings.__struct_fields__} <= {tool.table for tool in TOOLS}


def test_a_tool_whose_settings_name_no_server_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_tools, "TOOLS", (ToolSetup("thing", lambda tools: {"size": 1}, lambda chosen, parts: {}),))
    check_tools(Settings())
