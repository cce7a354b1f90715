"""The settings of MCP: read from the file, with errors that name the setting and its line."""

from pathlib import Path

import pytest

from antiphon.app.mcp_servers import address_policy, check_mcp, mcp_limits, operator_servers
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.sources import load
from antiphon.settings.tables import McpSettings
from antiphon.tools.addresses import url_complaint
from antiphon.tools.mcp.targets import HttpServer, StdioServer

ENVIRONMENT = {"TOKEN": "a-long-secret"}


def read(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "antiphon.toml"
    file.write_text(text)
    return load({}, {}, file)


def error_of(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as raised:
        check_mcp(read(tmp_path, text), ENVIRONMENT)
    return str(raised.value).replace(str(tmp_path / "antiphon.toml"), "FILE")


def test_servers_are_programs_or_urls_with_secrets_from_the_environment(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
        tool_timeout = 9

        [mcp]
        hosts = "tools.example.com"
        connect-timeout = 8

        [mcp.servers.time]
        command = "uvx"
        args = ["mcp-server-time", "--local-timezone=UTC"]
        env = { API_KEY = "$TOKEN", PLAIN = "a$b" }
        cwd = "/srv"
        always = true
        keys = ["ada"]
        models = ["qwen3"]
        allowed-tools = ["get_current_time"]
        timeout = 5

        [mcp.servers.remote]
        url = "https://mcp.example.com/mcp"
        headers = { Authorization = "Bearer ${TOKEN}" }
        shared = true
        """,
    )
    servers = operator_servers(settings, ENVIRONMENT)
    time, remote = servers["time"], servers["remote"]
    env = (("API_KEY", "a-long-secret"), ("PLAIN", "a$b"))
    assert time.target == StdioServer("uvx", ("mcp-server-time", "--local-timezone=UTC"), env, "/srv")
    assert (time.timeout, time.allowed_tools, time.shared) == (5.0, frozenset({"get_current_time"}), False)
    assert time.is_attached("ada", ("qwen3", None))
    assert not time.is_attached("ada", ("gpt-5", "gemma3"))
    assert not time.is_attached("bob", ("qwen3",))
    url = "https://mcp.example.com/mcp"
    assert remote.target == HttpServer(url, (("Authorization", "Bearer a-long-secret"),), is_trusted=True)
    assert (remote.shared, remote.always, remote.serves("anybody")) == (True, False, True)
    limits = mcp_limits(settings)
    assert (settings.mcp.hosts, limits.call, limits.connect) == (("tools.example.com",), 9.0, 8.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcp = 3", "mcp must be a table of the file: [mcp] (FILE, line 1)"),
        ('[mcp]\nurls = "some"', "mcp.urls must be one of: any, listed, off, public, not 'some' (FILE, line 2)."),
        ("[mcp]\nurl = 3", "unknown setting mcp.url (FILE, line 2). Did you mean mcp.urls?"),
        ("[mcp]\nmax_tools = 0", "mcp.max_tools must be a whole number, at least 1, not 0 (FILE, line 2)."),
        ("[mcp]\nservers = 1", "mcp.servers must be a table of the file: [mcp.servers.NAME] (FILE, line 2)"),
        ('[mcp]\nhosts = ["http://a/b"]', "mcp.hosts must be hosts or networks, such as"),
        ("[mcp.servers.a]\ncommand = 3", "mcp.servers.a.command must be a text (FILE, line 2)."),
        (
            '[mcp.servers.a]\ncommand = "x"\n[mcp.servers.b]\ncomand = "secret"',
            "unknown setting mcp.servers.b.comand (FILE, line 4). Did you mean mcp.servers.b.command?",
        ),
        ("[mcp.servers.a]\nalways = 'yes'", "mcp.servers.a.always must be true or false, not 'yes' (FILE, line 2)."),
        ("[mcp.servers.a]\nheaders = {b = 3}", "mcp.servers.a.headers must be a table of texts (FILE, line 2)."),
        ("[mcp.servers.a]\ntimeout = 0", "mcp.servers.a.timeout must be a number above 0, not 0 (FILE, line 2)."),
        ("[mcp.servers.a]\n", "mcp.servers.a must have either command or url"),
        ('[mcp.servers.a]\ncommand = "x"\nurl = "http://a"', "mcp.servers.a must have either command or url"),
        ('[mcp.servers.a]\nurl = "http://a"\nargs = ["x"]', "mcp.servers.a.args has no effect with url"),
        ('[mcp.servers.a]\ncommand = "x"\nheaders = {a = "b"}', "mcp.servers.a.headers has no effect with command"),
        ('[mcp.servers.a]\nurl = "ftp://a"', "mcp.servers.a.url cannot be used: it must be http://… or https://…"),
        ('[mcp.servers.a]\nurl = "http://u:secret@a/"', "mcp.servers.a.url cannot be used: a URL must not have a user name"),
        (
            '[mcp.servers.a]\ncommand = "x"\nenv = {K = "$NOT_SET"}',
            "mcp.servers.a.env.K needs the environment variable NOT_SET, which is not set",
        ),
        (
            '[keys]\nada = "k"\n[mcp.servers.a]\ncommand = "x"\nkeys = ["ada", "adda", "admin"]',
            "mcp.servers.a.keys: there is no key adda in keys. Did you mean ada?",
        ),
        ('[mcp.servers."a b"]\ncommand = "x"', "mcp.servers: 'a b' is not a name. Use 1 to 64 letters, digits, - and _"),
    ],
)
def test_an_error_names_the_setting_and_its_line(tmp_path: Path, text: str, message: str) -> None:
    error = error_of(tmp_path, text)
    assert error.startswith(message)
    assert "secret" not in error


def test_mcp_cannot_be_set_in_the_environment() -> None:
    with pytest.raises(SettingsError, match=r"mcp must be a table of the file: \[mcp\] \(ANTIPHON_MCP\)"):
        load({}, {"ANTIPHON_MCP": "on"})


@pytest.mark.parametrize(
    ("settings", "url", "allowed"),
    [
        (Settings(), "https://example.com/mcp", True),
        (Settings(), "http://example.com/mcp", False),
        (Settings(), "http://127.0.0.1:8000/mcp", True),
        (Settings(), "http://192.168.1.2/mcp", False),
        (Settings(), "http://169.254.169.254/", False),
        (Settings(host="0.0.0.0"), "https://example.com/mcp", False),
        (Settings(host="0.0.0.0"), "http://127.0.0.1:8000/mcp", False),
        (Settings(host="0.0.0.0", mcp=McpSettings(urls="public")), "https://example.com/mcp", True),
        (Settings(host="0.0.0.0", mcp=McpSettings(urls="public")), "http://127.0.0.1:8000/mcp", False),
        (Settings(mcp=McpSettings(urls="public")), "https://example.com/mcp", True),
        (Settings(mcp=McpSettings(urls="public")), "http://127.0.0.1:8000/mcp", False),
        (Settings(mcp=McpSettings(urls="public")), "https://[::1]:8000/mcp", False),
        (Settings(mcp=McpSettings(urls="public", hosts=("127.0.0.1",))), "http://127.0.0.1:8000/mcp", True),
        (Settings(mcp=McpSettings(urls="off")), "https://example.com/mcp", False),
        (Settings(mcp=McpSettings(urls="listed", hosts=("10.0.0.5",))), "http://10.0.0.5/mcp", True),
        (Settings(mcp=McpSettings(urls="listed", hosts=("10.0.0.5",))), "http://127.0.0.1/mcp", False),
        (Settings(mcp=McpSettings(urls="any")), "http://192.168.1.2/mcp", True),
        (Settings(mcp=McpSettings(urls="any")), "http://169.254.169.254/", False),
    ],
)
def test_which_urls_requests_may_name_depends_on_who_can_reach_the_gateway(settings: Settings, url: str, allowed: bool) -> None:
    assert (url_complaint(address_policy(settings, ()), url) is None) is allowed


def test_the_gateways_own_address_is_never_allowed() -> None:
    policy = address_policy(Settings(mcp=McpSettings(urls="any")), [("127.0.0.1", 8484)])
    assert url_complaint(policy, "http://127.0.0.1:8484/mcp") == "127.0.0.1:8484 is this gateway itself"
