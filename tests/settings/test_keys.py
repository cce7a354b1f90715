"""Keys in the settings: with names or without, in plain text or as hashes."""

from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon.cli.commands import app
from antiphon.settings.errors import SettingsError
from antiphon.settings.keys import PREFIX, earlier_owners, key_owners, metrics_readers, needs_key, plain_key
from antiphon.settings.settings import Settings
from antiphon.settings.sources import load


def test_a_broken_file_of_a_prompt_stops_no_command_of_keys(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "broken.md").write_text("+++\nnot TOML\n+++\nHi")
    environment = {"ANTIPHON_PROMPTS": str(tmp_path / "prompts"), "ANTIPHON_STORE": f"sqlite:{tmp_path / 'responses.db'}"}
    runner = CliRunner(env=environment)
    assert runner.invoke(app, ["key", "new", "ada"]).exit_code == 0
    revoked = runner.invoke(app, ["key", "revoke", "ada"])
    assert (revoked.exit_code, "1 key of ada is refused" in revoked.output) == (0, True), revoked.output
    served = runner.invoke(app, ["serve", "--upstream", "http://127.0.0.1:9"])
    assert (served.exit_code, "broken.md" in served.output) == (2, True), served.output


def hash_of(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()


def test_names_are_owners_and_unnamed_keys_are_owned_by_their_hash() -> None:
    settings = Settings(api_key=("a", "b"), keys={"ada": ("b", "c", f"blake2b:{hash_of('d')}")}, admin_key=("e",))
    assert key_owners(settings) == {
        hash_of("a"): hash_of("a"),
        # A key that is in both lists has its name.
        hash_of("b"): "ada",
        hash_of("c"): "ada",
        hash_of("d"): "ada",
        hash_of("e"): "admin",
    }
    assert earlier_owners(settings) == {hash_of("b"): "ada", hash_of("c"): "ada", hash_of("d"): "ada", hash_of("e"): "admin"}


def test_the_hash_is_the_one_that_b2sum_prints() -> None:
    # printf %s secret | b2sum -l 128
    assert key_owners(Settings(keys={"ada": ("secret",)})) == {"8f64bfc250ac98ecf5a0f6a52cde7ec5": "ada"}


def test_any_kind_of_key_makes_keys_necessary_and_a_plain_one_can_be_sent() -> None:
    hashed = f"blake2b:{hash_of('x')}"
    assert not needs_key(Settings())
    assert all(needs_key(each) for each in (Settings(api_key=("a",)), Settings(keys={"a": ("b",)}), Settings(admin_key=("a",))))
    assert plain_key(Settings(keys={"a": (hashed, "b")})) == "b"
    assert plain_key(Settings(keys={"a": (hashed,)})) is None


def test_keys_can_be_set_in_the_file_and_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('admin-key = "boss"\n[keys]\nada = "one"\nbob = ["two", "three"]\n')
    chosen = load({}, {}, file)
    assert (chosen.keys, chosen.admin_key) == ({"ada": ("one",), "bob": ("two", "three")}, ("boss",))
    environment = {"ANTIPHON_KEYS": "ada=one==, bob = two,ada=three", "ANTIPHON_ADMIN_KEY": "a,b"}
    chosen = load({}, environment, file)
    assert (chosen.keys, chosen.admin_key) == ({"ada": ("one==", "three"), "bob": ("two",)}, ("a", "b"))


SAME = "keys: ada and bob have the same key. Give each name a key of its own"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keys": {"ada": ("secret",), "bob": ("secret",)}}, SAME),
        ({"keys": {"ada": ("secret",), "bob": (f"blake2b:{hash_of('secret')}",)}}, SAME),
        ({"keys": {"ada": ("secret",)}, "admin_key": ("secret",)}, "keys: ada and admin have the same key"),
        ({"keys": {"admin": ("secret",)}}, "keys: the name 'admin' belongs to admin_key. Choose another name"),
        ({"keys": {"a b": ("secret",)}}, "keys: 'a b' is not a name. Use 1 to 64 letters, digits, - and _"),
        ({"keys": {"": ("secret",)}}, "keys: '' is not a name"),
        ({"keys": {"a" * 65: ("secret",)}}, "is not a name"),
        ({"keys": {hash_of("x"): ("secret",)}}, "looks like the hash of a key. Choose another name"),
        (
            {"keys": {"ada": ("blake2b:secret",)}},
            "keys.ada: after blake2b: there must be 32 hexadecimal digits, got 6 characters",
        ),
        ({"keys": {"ada": ("blake2b:x",)}}, "there must be 32 hexadecimal digits, got 1 character"),
        ({"admin_key": (f"blake2b:{hash_of('x')}0",)}, "admin_key: after blake2b: there must be 32 hexadecimal digits"),
        ({"keys": {"ada": ("",)}}, "keys.ada must be a key without spaces"),
        ({"keys": {"ada": ("sec ret",)}}, "keys.ada must be a key without spaces"),
    ],
)
def test_a_wrong_name_or_hash_is_an_error_that_names_it_and_no_secret(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        key_owners(Settings(**settings))
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ('keys = "secret"', {}, "keys must be a table: NAME = VALUE in the file, NAME=VALUE in the environment"),
        ("[keys]\nada = 1", {}, "keys.ada must be a text or a list of texts"),
        ("[keys]\nada = []", {}, "keys.ada must be a text or a list of texts"),
        ('[keys]\nada.b = "secret"', {}, "keys.ada must be a text or a list of texts"),
        ('[keys]\nada = "secret"\nada = "secret"', {}, "is not TOML"),
        ("", {"ANTIPHON_KEYS": "secret"}, "keys must be a table"),
    ],
)
def test_keys_of_another_shape_are_an_error_without_a_secret(
    text: str, environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as raised:
        load({}, environment, file)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


# ---- antiphon key new ------------------------------------------------------------------------------------------------


def printed(folder: Path, *arguments: str, config: str = "") -> tuple[int, str, str]:
    file = folder / "antiphon.toml"
    file.write_text(config)
    result = CliRunner().invoke(app, ["key", "new", *arguments, "--config", str(file)])
    assert file.read_text() == config, "the file is only read"
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("hashed", [False, True])
def test_a_new_key_is_printed_with_a_line_that_lets_it_in(hashed: bool, tmp_path: Path) -> None:
    code, out, err = printed(tmp_path, "ada", "--hashed" if hashed else "--file")
    assert (code, err) == (0, "")
    key = next(line for line in out.splitlines() if line.startswith(PREFIX))
    assert len(key) == len(PREFIX) + 43
    (tmp_path / "new.toml").write_text(out[out.index("[keys]") :])
    chosen = load({}, {}, tmp_path / "new.toml")
    assert key_owners(chosen) == {hash_of(key): "ada"}
    assert (key in out[out.index("[keys]") :]) is not hashed
    assert printed(tmp_path, "ada", "--file")[1] != out


def test_another_key_for_a_name_is_added_to_its_list(tmp_path: Path) -> None:
    code, out, _ = printed(tmp_path, "ada", "--hashed", config='[keys]\nada = "secret"\n')
    assert code == 0
    assert 'ada = ["…", "blake2b:' in out
    assert "secret" not in out


@pytest.mark.parametrize(
    ("name", "message"),
    [("admin", "the name 'admin' belongs to admin_key"), ("a b", "'a b' is not a name. Use 1 to 64 letters")],
)
def test_a_name_that_cannot_be_one_gets_no_key(name: str, message: str, tmp_path: Path) -> None:
    code, out, err = printed(tmp_path, name)
    assert (code, out) == (2, "")
    assert message in err


def test_a_wrong_key_for_the_metrics_is_an_error_that_names_it_and_no_secret() -> None:
    with pytest.raises(SettingsError, match="metrics_key: after blake2b: there must be 32 hexadecimal digits") as raised:
        metrics_readers(Settings(metrics_key=("blake2b:secret",)))
    assert "secret" not in str(raised.value)


def test_a_key_for_the_metrics_makes_no_other_key_necessary() -> None:
    assert not needs_key(Settings(metrics_key=("sk-metrics",)))
