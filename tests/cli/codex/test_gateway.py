"""Which gateway `antiphon codex` uses, and what `--print` shows without one."""

import socket
import tomllib
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path

import pytest
from support.codex import Person, write_codex
from support.engine import OWN_FIELDS, MockEngine
from support.gateway import running_gateway, started
from support.processes import running

from antiphon.app import running_gateways
from antiphon.cli.clients.gateway import DEFAULT_PORT
from bench.processes import free_port

pytestmark = pytest.mark.timeout(60, func_only=True)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """Their Codex only shows its arguments."""
    path = write_codex(tmp_path / "tools", 'echo "$@"')
    person = Person(tmp_path, tmp_path / "tools")
    person.environment["PATH"] = path
    return person


@pytest.fixture
def announced(person: Person) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def announce(announced: ExitStack, person: Person, url: str) -> None:
    folder = person.home / ".local" / "share" / "antiphon" / running_gateways.FOLDER
    announced.enter_context(running_gateways.announce(url, "1.0", folder))


@pytest.fixture
def nothing_at_the_default_port() -> None:
    """Codex would use what answers there, such as a gateway of the person who runs the tests."""
    with closing(socket.socket()) as client:
        if client.connect_ex(("127.0.0.1", DEFAULT_PORT)) == 0:
            pytest.skip(f"a program listens at port {DEFAULT_PORT}, where this test needs none")


def base_url(url: str) -> str:
    return f'model_providers.antiphon.base_url="{url}/v1"'


@pytest.mark.usefixtures("nothing_at_the_default_port")
async def test_a_gateway_on_any_port_is_found(person: Person, engine: MockEngine, announced: ExitStack) -> None:
    async with running_gateway(engine) as gateway:
        announce(announced, person, gateway.url)
        code, output = await person.types("codex")
    assert code == 0, output
    assert f"Codex uses the gateway at {gateway.url}." in output
    assert base_url(gateway.url) in output


@pytest.mark.usefixtures("nothing_at_the_default_port")
async def test_of_several_the_newest_is_used_and_all_are_named(
    person: Person, engine: MockEngine, announced: ExitStack
) -> None:
    async with running_gateway(engine) as older, running_gateway(engine) as newer:
        announce(announced, person, older.url)
        announce(announced, person, newer.url)
        announce(announced, person, f"http://127.0.0.1:{free_port()}")
        code, output = await person.types("codex")
        assert code == 0, output
        assert f"Codex uses the newest one, {newer.url}. --url URL chooses another one: {older.url}." in output
        assert base_url(newer.url) in output
        code, output = await person.types("codex", "--url", f"{older.url}/v1/")
        assert code == 0, output
        assert "Several" not in output
        assert base_url(older.url) in output


async def test_the_address_of_the_settings_comes_first(person: Person, engine: MockEngine, announced: ExitStack) -> None:
    async with running_gateway(engine) as named, running_gateway(engine) as newer:
        announce(announced, person, newer.url)
        person.environment["ANTIPHON_PORT"] = named.url.rpartition(":")[2]
        code, output = await person.types("codex")
    assert code == 0, output
    assert output.count("http://") == 1
    assert base_url(named.url) in output


@pytest.mark.parametrize("port", ["0", "free"])
async def test_one_is_started_at_the_port_of_the_settings_or_at_any(person: Person, engine: MockEngine, port: str) -> None:
    chosen = str(free_port()) if port == "free" else port
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": chosen}
    code, output = await person.types("codex")
    assert code == 0, output
    (used,) = [word for word in output.split() if word.startswith("model_providers.antiphon.base_url=")]
    assert ":8484/v1" not in used
    assert (f":{chosen}/v1" in used) is (port == "free")
    assert not running(str(person.home))


async def test_ipv6_is_written_in_brackets(person: Person, engine: MockEngine) -> None:
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_HOST": "::1", "ANTIPHON_PORT": str(free_port())}
    person.environment["NO_PROXY"] += ",::1,[::1]"
    code, output = await person.types("codex")
    assert code == 0, output
    assert base_url(f"http://[::1]:{person.environment['ANTIPHON_PORT']}") in output


async def test_a_url_where_nothing_answers_is_an_error(person: Person) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    code, output = await person.types("codex", "--url", url)
    assert code == 2
    assert f"No gateway answers at {url}." in output


async def test_a_gateway_that_needs_another_key_says_how_to_give_it(person: Person, engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("secret",)) as gateway:
        code, output = await person.types("codex", "--url", gateway.url)
        assert code == 2
        assert f"The gateway at {gateway.url} needs a key. Set ANTIPHON_API_KEY to one" in output
        person.environment["ANTIPHON_API_KEY"] = "wrong"
        code, output = await person.types("codex", "--url", gateway.url)
        assert code == 2
        assert f"The gateway at {gateway.url} does not know the key. Set ANTIPHON_API_KEY to one" in output
        del person.environment["ANTIPHON_API_KEY"]
        person.environment["ANTIPHON_CODEX_KEY"] = "secret"
        code, output = await person.types("codex", "--url", gateway.url)
    assert code == 0, output
    assert 'model_providers.antiphon.env_key="ANTIPHON_CODEX_KEY"' in output
    assert "secret" not in output


async def test_a_model_that_the_gateway_does_not_list_is_noted(person: Person, engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        code, output = await person.types("codex", "--url", gateway.url, "-m", "nosuch")
        assert code == 0, output
        assert f"The gateway at {gateway.url} lists no model `nosuch`: another one answers, or none. It lists: mock." in output
        code, output = await person.types("codex", "--url", gateway.url, "-m", "mock")
    assert code == 0, output
    assert "lists no model" not in output


async def test_no_proxy_is_asked_for_a_gateway_on_this_machine(person: Person, engine: MockEngine) -> None:
    del person.environment["NO_PROXY"]
    async with running_gateway(engine) as gateway:
        code, output = await person.types("codex", "--url", gateway.url)
    assert code == 0, output
    assert base_url(gateway.url) in output
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": str(free_port())}
    code, output = await person.types("codex")
    assert code == 0, output


async def test_an_unknown_name_of_the_environment_is_reported(person: Person, engine: MockEngine) -> None:
    person.environment["ANTIPHON_PROT"] = "1"
    async with running_gateway(engine) as gateway:
        code, output = await person.types("codex", "--url", gateway.url)
    assert code == 0, output
    assert "antiphon: ANTIPHON_PROT is not a setting, and has no effect. Did you mean ANTIPHON_PORT?\n" in output


# ---- what needs no gateway -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--version"], ["mcp", "list"], ["login"]], ids=" ".join)
async def test_codex_runs_without_a_gateway_if_it_needs_no_model(
    person: Person, engine: MockEngine, tmp_path: Path, arguments: list[str]
) -> None:
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": str(free_port())}
    person.environment["PATH"] = write_codex(tmp_path / "other", 'echo "$CODEX_HOME" "$@"; exit 3')
    code, output = await person.types("codex", *arguments)
    home = person.home / ".local" / "share" / "antiphon" / "codex"
    # In the folder of sessions with a model: servers that are added there are theirs.
    assert (code, output) == (3, f"{home} {' '.join(arguments)}\n")
    assert not files("codex-gateway.log", tmp_path)


# ---- a window that is too small --------------------------------------------------------------------------------------


async def test_a_window_that_is_too_small_is_refused_before_codex_starts(person: Person) -> None:
    engine = MockEngine(owned_by="vllm", own_fields=OWN_FIELDS["vllm"])
    engine._models["data"][0] |= {"id": "tiny", "max_model_len": 2048}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(started(engine))
        gateway = await stack.enter_async_context(running_gateway(engine))
        code, output = await person.types("codex", "--url", gateway.url, "exec", "Say hello")
        assert code == 2
        assert "The context window of tiny has 2048 tokens. Codex needs at least 4096" in output
        assert "--max-model-len N" in output
        assert "exec Say hello" not in output, "Codex was not started"
        code, output = await person.types("codex", "--url", gateway.url, "--anyway", "exec", "Say hello")
    assert code == 0, output
    assert output.endswith("exec Say hello\n")


# ---- --print ---------------------------------------------------------------------------------------------------------


def files(name: str, folder: Path) -> list[Path]:
    return list(folder.rglob(name))


async def test_print_starts_nothing(person: Person, engine: MockEngine, tmp_path: Path) -> None:
    write_codex(tmp_path / "other", f"touch {tmp_path / 'codex-ran'}")
    person.environment |= {
        "PATH": str(tmp_path / "other"),
        "ANTIPHON_UPSTREAM": engine.url,
        "ANTIPHON_PORT": str(free_port()),
        "ANTIPHON_DEFAULT_MODEL": "big",
    }
    code, output = await person.types("codex", "--print")
    assert code == 0, output
    assert output.startswith("# No gateway runs")
    shown = tomllib.loads(output)
    assert shown["model"] == "big"
    assert shown["features"] == {"daemon_auto_start": False}
    assert shown["model_providers"]["antiphon"]["base_url"] == f"http://127.0.0.1:{person.environment['ANTIPHON_PORT']}/v1"
    assert not engine.requests
    assert not files("codex-gateway.log", tmp_path)
    async with running_gateway(engine) as gateway:
        code, output = await person.types("codex", "--url", gateway.url, "--print")
    assert tomllib.loads(output)["model"] == "mock"
    assert not files("codex-ran", tmp_path), "Codex was not asked either"


async def test_print_refuses_what_would_be_for_codex(person: Person, engine: MockEngine) -> None:
    engine.lists("first", "second")
    async with running_gateway(engine) as gateway:
        code, output = await person.types("codex", "--url", gateway.url, "--print", "exec", "Say hello", "--oss")
        assert code == 2
        assert "Leave out: exec 'Say hello' --oss." in output
        code, output = await person.types("codex", "--url", gateway.url, "--print", "-m", "second")
    assert code == 0, output
    assert tomllib.loads(output)["model"] == "second"
