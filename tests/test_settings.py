"""A flag overrides the environment, which overrides the file, which overrides the default."""

import json
import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs import macos, windows

from antiphon.settings import Settings, SettingsError, cache_directory, data_directory, load, read_chat_template


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
        ({"port": 70000}, {}, "", "the command line"),
        ({}, {"ANTIPHON_PORT": "many"}, "", "the environment"),
        ({}, {}, "prot = 1", "unknown settings: prot"),
        ({}, {}, "retention-days = 0", "the configuration file"),
        ({}, {}, "heartbeat = 0", "the configuration file"),
        ({}, {}, "port = ", "is not TOML"),
        ({}, {"ANTIPHON_MODEL_NAMES": "gpt-5="}, "", "'gpt-5=' must be NAME or NAME=VALUE"),
        ({"model_names": ["=qwen3"]}, {}, "", "'=qwen3' must be NAME or NAME=VALUE"),
    ],
)
def test_an_error_names_the_setting_or_its_source(
    flags: dict[str, object], environment: dict[str, str], text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load(flags, environment, file)


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
