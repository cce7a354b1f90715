"""A flag overrides the environment, which overrides the file, which overrides the default."""

import json
import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs import macos, windows

from antiphon.app.checked_settings import load_settings
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings, cache_directory, data_directory, read_chat_template
from antiphon.settings.sources import load, unknown_variables


def test_without_any_source_the_defaults_apply() -> None:
    assert load({}, {}) == Settings()


def test_flags_override_the_environment_and_the_environment_the_file(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('port = 1\nhost = "file"\nupstream-key = "file"\napi_key = ["a", "b"]\nheartbeat = 3\n')
    environment = {"ANTIPHON_HOST": "environment", "ANTIPHON_UPSTREAM_KEY": "environment"}
    chosen = load({"upstream_key": "flag", "port": None, "upstream": []}, environment, file)
    assert (chosen.port, chosen.host, chosen.upstream_key) == (1, "environment", "flag")
    assert chosen.api_key == ("a", "b")
    assert chosen.heartbeat == 3.0


def test_values_of_the_environment_are_converted() -> None:
    environment = {"ANTIPHON_PORT": "9000", "ANTIPHON_UPSTREAM": "http://a, http://b", "ANTIPHON_RETRIES": "0"}
    chosen = load({}, environment)
    assert (chosen.port, chosen.upstream, chosen.retries) == (9000, ("http://a", "http://b"), 0)
    assert load({}, {"ANTIPHON_PROBE": "false"}).probe is False


def test_the_store_its_retention_and_its_size_can_be_set() -> None:
    environment = {"ANTIPHON_STORE": "sqlite:x", "ANTIPHON_RETENTION_DAYS": "0.5", "ANTIPHON_STORE_MAX_BYTES": "1000"}
    chosen = load({"store": "memory:"}, environment)
    assert (chosen.store, chosen.retention_days, chosen.store_max_bytes) == ("memory:", 0.5, 1000)
    assert (Settings().store, Settings().retention_days, Settings().store_max_bytes) == (None, 30.0, 10 * 1024**3)


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "antiphon.toml").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"cannot read antiphon\.toml: Is a directory"):
        load({}, {})


def test_names_of_models_and_origins_of_pages_can_be_set_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('default-model = "qwen3"\ncors_origins = "https://a.example, *"\n[model_names]\ngpt-5 = "qwen3"\n')
    chosen = load({}, {}, file)
    assert (chosen.default_model, chosen.cors_origins) == ("qwen3", ("https://a.example", "*"))
    assert chosen.model_names == {"gpt-5": "qwen3"}
    environment = {"ANTIPHON_MODEL_NAMES": "gpt-5=gemma3, gpt-4o = org/qwen3", "ANTIPHON_DEFAULT_MODEL": "gemma3"}
    chosen = load({"cors_origins": ["https://b.example"]}, environment, file)
    assert chosen.model_names == {"gpt-5": "gemma3", "gpt-4o": "org/qwen3"}
    assert (chosen.default_model, chosen.cors_origins) == ("gemma3", ("https://b.example",))
    assert load({"model_names": ["a=b"]}, environment, file).model_names == {"a": "b"}
    assert (Settings().model_names, Settings().default_model, Settings().cors_origins) == ({}, None, ())


def test_names_of_hosts_can_be_set_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('allowed-hosts = "a.example"\ninsecure-no-auth = true\n')
    chosen = load({}, {}, file)
    assert (chosen.allowed_hosts, chosen.insecure_no_auth) == (("a.example",), True)
    chosen = load(
        {"insecure_no_auth": None}, {"ANTIPHON_ALLOWED_HOSTS": "b.example, *", "ANTIPHON_INSECURE_NO_AUTH": "0"}, file
    )
    assert (chosen.allowed_hosts, chosen.insecure_no_auth) == (("b.example", "*"), False)


def test_a_false_flag_overrides_too() -> None:
    assert load({"probe": False}, {"ANTIPHON_PROBE": "true"}).probe is False
    assert load({"probe": None}, {}).probe is True


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("port = 77")
    assert load({}, {"ANTIPHON_CONFIG": str(file)}).port == 77


@pytest.mark.parametrize(
    ("flags", "environment", "text", "message"),
    [
        ({"port": 70000}, {}, "", "port must be a whole number from 0 to 65535, not 70000 (--port)."),
        ({}, {"ANTIPHON_PORT": "many"}, "", "port must be a whole number from 0 to 65535, not 'many' (ANTIPHON_PORT)."),
        (
            {},
            {"ANTIPHON_PORT": "tcp://10.0.0.1:80"},
            "",
            "port must be a whole number from 0 to 65535, not 'tcp://10.0.0.1:80' "
            "(ANTIPHON_PORT). Kubernetes sets it for a service that is called antiphon",
        ),
        ({"help": "some"}, {}, "", "help must be one of: auto, full, off, not 'some' (--model-help)."),
        ({}, {"ANTIPHON_PROBE": "perhaps"}, "", "probe must be true or false, not 'perhaps' (ANTIPHON_PROBE)."),
        ({}, {"ANTIPHON_KEY_RESPONSES": "0"}, "", "key_responses must be a whole number, at least 1, not '0'"),
        ({}, {}, "upstream_key = 3", "upstream_key must be a text (FILE, line 1)."),
        ({}, {}, "cors_origins = 3", "cors_origins must be a text or a list of texts, not 3 (FILE, line 1)."),
        ({}, {}, "host = 'x'\nprot = 1", "unknown setting prot (FILE, line 2). Did you mean port?"),
        ({}, {}, "[keyz]\na = 'b'", "unknown setting keyz (FILE, line 1). Did you mean keys?"),
        ({}, {}, "\n\nfrobnicate = 1", "unknown setting frobnicate (FILE, line 3)."),
        ({}, {}, "#\nretention-days = 0", "retention_days must be a number above 0, not 0 (FILE, line 2)."),
        ({}, {}, "heartbeat = 0", "heartbeat must be a number above 0, not 0 (FILE, line 1)."),
        ({}, {}, "port = ", "FILE is not TOML"),
        ({}, {"ANTIPHON_MODEL_NAMES": "gpt-5="}, "", "'gpt-5=' must be NAME or NAME=VALUE (ANTIPHON_MODEL_NAMES)"),
        ({"model_names": ["=qwen3"]}, {}, "", "'=qwen3' must be NAME or NAME=VALUE (--model-name)"),
        (
            {},
            {},
            "[tools.web_search]\nbackend = 'bing'",
            "tools.web_search.backend must be one of: brave, mcp, searxng, tavily, not 'bing' (FILE, line 2).",
        ),
        ({}, {}, "[tools.web_search]\nrobot = true", "unknown setting tools.web_search.robot (FILE, line 2). Did you mean"),
        ({}, {}, "[tools.code_search]\nmcp = 'x'", "unknown setting tools.code_search (FILE, line 1)."),
        ({}, {}, "[tools.file_search]\ntools = 'x'", "unknown setting tools.file_search.tools (FILE, line 2). Did you mean"),
        ({}, {}, "tools = 3", "tools must be a table of the file: [tools] (FILE, line 1)"),
        ({}, {"ANTIPHON_TOOLS": "x"}, "", "tools must be a table of the file: [tools] (ANTIPHON_TOOLS)"),
        ({}, {}, "[tools.web_search]\ntimeout = 0", "tools.web_search.timeout must be a number above 0, not 0 (FILE, line 2)."),
    ],
)
def test_an_error_names_the_setting_its_source_and_what_is_allowed(
    flags: dict[str, object], environment: dict[str, str], text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load(flags, environment, file)
    assert str(error.value).replace(str(file), "FILE").startswith(message)
    assert str(error.value).endswith(("?", ".", ")"))


def test_all_unknown_names_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text("prot = 1\nhots = 'x'\n")
    with pytest.raises(SettingsError, match=r"prot .*Did you mean port\?\n.*hots .*Did you mean host\?"):
        load({}, {}, file)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTIPHON_KEYS", "s3cret"),
        ("ANTIPHON_UPSTREAM", "http://user:s3cret@host:99999"),
        ("ANTIPHON_UPSTREAM", "http://user:s3cret/x@host:1"),
        ("ANTIPHON_UPSTREAM", "user:s3cret@host:1"),
        ("ANTIPHON_UPSTREAM", "htp://user:s3cret@host"),
    ],
)
def test_an_error_never_shows_a_secret(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as error:
        load({}, {name: value})
    assert name in str(error.value)
    assert "s3cret" not in str(error.value)


def test_a_secret_of_the_wrong_type_is_not_shown_either(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    secret = [name for name in Settings.__struct_fields__ if name.endswith("_key") or name == "store"]
    for setting in secret:
        file.write_text(f"{setting} = 12345678")
        with pytest.raises(SettingsError, match=f"^{setting} must be ") as error:
            load({}, {}, file)
        assert "12345678" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("htp://x", "upstream must be http://HOST:PORT or https://HOST, with or without /v1, not 'htp://x' (--upstream)."),
        ("localhost:8080", "not 'localhost:8080' (--upstream). Did you mean http://localhost:8080?"),
        ("127.0.0.1:8080/v1", "Did you mean http://127.0.0.1:8080/v1?"),
        ("box", "Did you mean http://box?"),
        ("localhost:99999", "not 'localhost:99999' (--upstream)."),
        ("http://localhost:99999", "; the port must be from 1 to 65535, not 'http://localhost:99999'"),
        ("http://localhost:0", "the port must be from 1 to 65535"),
        ("http://localhost:http", "the port must be from 1 to 65535"),
        ("http://", "not 'http://'"),
        ("http://:8080", "not 'http://:8080'"),
        ("http://[::1", "an IPv6 address stands in brackets"),
        ("http://a b", "without spaces"),
        ("http://host/v1?key=1", "and nothing after it"),
    ],
)
def test_what_cannot_be_an_address_is_refused_at_once(address: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        load({"upstream": [address]}, {})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "address", ["http://host", "https://host/openai/v1/", "http://[::1]:8080", "http://user:word@host:1/v1", "HTTP://HOST"]
)
def test_what_can_be_an_address_is_taken(address: str) -> None:
    assert load({"upstream": [address]}, {}).upstream == (address,)


def test_a_key_that_chat_requests_are_passed_on_for_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('chat_pass_keys = ["alise"]\n[keys]\nalice = "a-key"\n')
    with pytest.raises(SettingsError, match=r"^chat_pass_keys: there is no key alise in keys\. Did you mean alice\?$"):
        load_settings({}, file)


def test_unknown_names_of_the_environment_are_reported_with_what_was_meant() -> None:
    environment = {"ANTIPHON_LOGLEVEL": "x", "ANTIPHON_ZZZ": "", "ANTIPHON_CONFIG": "x", "ANTIPHON_PORT": "1", "PATH": "x"}
    assert unknown_variables(environment) == [
        "ANTIPHON_LOGLEVEL is not a setting, and has no effect. Did you mean ANTIPHON_LOG_LEVEL?",
        "ANTIPHON_ZZZ is not a setting, and has no effect.",
    ]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        load({}, {}, tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("variables", "data", "cache"),
    [
        ({}, "home/.local/share/antiphon", "home/.cache/antiphon"),
        ({"XDG_DATA_HOME": "", "XDG_CACHE_HOME": ""}, "home/.local/share/antiphon", "home/.cache/antiphon"),
        ({"XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"}, "data/antiphon", "cache/antiphon"),
    ],
)
def test_directories_on_linux_never_move(
    variables: dict[str, str], data: str, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(tmp_path / value) if value else "")
    assert (data_directory(Settings()), cache_directory(Settings())) == (tmp_path / data, tmp_path / cache)


def test_directories_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platformdirs, "PlatformDirs", macos.MacOS)
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert data_directory(Settings()) == tmp_path / "Library" / "Application Support" / "antiphon"
    assert cache_directory(Settings()) == tmp_path / "Library" / "Caches" / "antiphon"


def test_directories_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(platformdirs, "PlatformDirs", windows.Windows)
    monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert data_directory(Settings()) == tmp_path / "antiphon"
    # Earlier versions said "cache", which is the same directory there.
    assert cache_directory(Settings()) == tmp_path / "antiphon" / "Cache"


def test_directories_can_be_set() -> None:
    chosen = Settings(data_dir="/data", cache_dir="/cache")
    assert (data_directory(chosen), cache_directory(chosen)) == (Path("/data"), Path("/cache"))


CONFIG = {"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "with tools"}]}


@pytest.mark.parametrize(
    ("name", "text", "template"),
    [
        ("chat.jinja", "{{ messages }}", "{{ messages }}"),
        ("tokenizer_config.json", '{"chat_template": "{{ messages }}"}', "{{ messages }}"),
        ("tokenizer_config.json", json.dumps(CONFIG), "with tools"),
        ("tokenizer_config.json", json.dumps({"chat_template": CONFIG["chat_template"][:1]}), "plain"),
        ("tokenizer_config.json", '{"chat_template": [{"name": "rag", "template": "other"}]}', "other"),
    ],
)
def test_a_chat_template_is_read_from_its_file(name: str, text: str, template: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    for chosen in (
        load({"chat_template": str(file)}, {}),
        load({}, {"ANTIPHON_CHAT_TEMPLATE": str(file)}),
        Settings(chat_template=str(file)),
    ):
        assert read_chat_template(chosen) == template
    assert read_chat_template(Settings()) is None


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("chat.jinja", None, "chat_template: cannot read .*chat.jinja: No such file"),
        ("chat.jinja", b" \n", "has no chat template. It must be a .jinja file or a tokenizer_config.json"),
        ("chat.jinja", b"\xff\xfe", "chat_template: cannot read"),
        ("tokenizer_config.json", b"{", "chat_template: cannot read"),
        ("tokenizer_config.json", b"{}", "has no chat template"),
        ("tokenizer_config.json", b"[]", "has no chat template"),
        ("tokenizer_config.json", b'{"chat_template": []}', "has no chat template"),
        ("tokenizer_config.json", b'{"chat_template": [{"name": "default"}]}', "has no chat template"),
    ],
)
def test_a_file_without_a_chat_template_is_an_error(name: str, data: bytes | None, message: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(SettingsError, match=message):
        read_chat_template(Settings(chat_template=str(tmp_path / name)))
