"""`antiphon connect`, typed by a person with an empty home directory."""

import json
from pathlib import Path

import pytest
from support.codex import Person, write_codex
from support.commands import shown_by
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.cli.connect.table import CLIENTS
from bench.processes import free_port


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path, tmp_path / "tools")


async def connect(person: Person, *arguments: str) -> tuple[int, str, str]:
    return await shown_by("connect", *arguments, cwd=person.repository, env=person.environment)


async def test_without_a_name_all_clients_are_listed_those_that_are_here_first(person: Person, tmp_path: Path) -> None:
    person.environment["PATH"] = write_codex(tmp_path / "tools", "true", name="qwen")
    node = person.repository / "node_modules" / "@anthropic-ai" / "sdk"
    node.mkdir(parents=True)
    extension = person.home / ".vscode" / "extensions" / "saoudrizwan.claude-dev-3.1.0"
    extension.mkdir(parents=True)
    code, out, _ = await connect(person)
    assert code == 0
    head, *rows = out.splitlines()[:-3]
    assert head.split() == ["name", "client", "API", "tested", "installed", "here"]
    assert sorted(row.split()[0] for row in rows) == sorted(CLIENTS)
    found = {name: row for row in rows for name in [row.split()[0]]}
    assert found["qwen-code"].endswith(f"yes     {tmp_path / 'tools' / 'qwen'}")
    assert found["anthropic-node"].endswith(str(node))
    assert found["cline"].endswith(f"no      {extension}")
    is_here = ["/" in row or "openai 3" in row or "anthropic 2" in row for row in rows]
    assert is_here.index(False) > rows.index(found["cline"])


async def test_the_list_for_a_gateway_that_does_not_answer_is_an_error_as_with_a_client(
    person: Person, gateway: GatewayUnderTest
) -> None:
    code, listed, err = await connect(person, "--url", gateway.url)
    assert (code, err) == (0, "")
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert await connect(person, "--url", nowhere) == (
        2, listed, f"antiphon: The gateway at {nowhere} does not answer: connection refused\n"
    )  # fmt: skip
    assert await connect(person, "aider", "--url", nowhere) == (
        2, "", f"antiphon: The gateway at {nowhere} does not answer: connection refused\n"
    )  # fmt: skip
    code, _, err = await connect(person, "--url", "nowhere")
    assert code == 2
    assert err.startswith("antiphon: --url ")


async def test_only_the_configuration_is_on_standard_output(person: Person, gateway: GatewayUnderTest) -> None:
    code, out, err = await connect(person, "zed", "--url", gateway.url)
    assert code == 0
    (provider,) = json.loads(out)["language_models"]["openai_compatible"].values()
    assert provider["api_url"] == f"{gateway.url}/v1"
    assert [model["name"] for model in provider["available_models"]] == ["mock"]
    assert err.startswith("Not tried: this follows Zed's documentation, and no test runs it.\nIn `~/.config/zed/settings.json`")


async def test_the_model_that_is_named_comes_first(person: Person, engine: MockEngine) -> None:
    engine.lists("one", "two")
    async with running_gateway(engine) as gateway:
        code, out, _ = await connect(person, "opencode", "--url", gateway.url, "--model", "two")
        assert code == 0
        shown = json.loads(out)
        assert shown["model"] == "antiphon/two"
        assert list(shown["provider"]["antiphon"]["models"]) == ["two", "one"]
        code, out, err = await connect(person, "opencode", "--url", gateway.url, "--model", "three")
        assert (code, out) == (2, "")
        assert "serves no model `three`. There are: one, two." in err


async def test_a_key_is_left_to_the_environment(person: Person, engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("secret",)) as gateway:
        code, _, err = await connect(person, "qwen-code", "--url", gateway.url)
        assert code == 2
        assert "needs a key. Set ANTIPHON_API_KEY to one" in err
        person.environment["ANTIPHON_API_KEY"] = "wrong"
        code, _, err = await connect(person, "qwen-code", "--url", gateway.url)
        assert code == 2
        assert "does not know the key. Set ANTIPHON_API_KEY to one that it knows" in err
        person.environment["ANTIPHON_API_KEY"] = "secret"
        code, out, err = await connect(person, "qwen-code", "--url", gateway.url)
        assert 'OPENAI_API_KEY="$ANTIPHON_API_KEY"' in out
        assert "which is not printed. Set ANTIPHON_API_KEY to it." in err
        _, out, err = await connect(person, "vscode", "--url", gateway.url)
        assert json.loads(out)[0]["apiKey"] == "YOUR_KEY"
        assert "Put it in place of YOUR_KEY." in err


async def test_it_is_written_where_it_is_asked_for(person: Person, gateway: GatewayUnderTest) -> None:
    code, out, _ = await connect(person, "pi", "--write", "--url", gateway.url)
    file = person.home / ".pi" / "agent" / "models.json"
    assert (code, out) == (0, f"{file} has it now.\n")
    assert json.loads(file.read_text())["providers"]["antiphon"]["baseUrl"] == f"{gateway.url}/v1"
    file.write_text('{"providers": {}}')
    code, out, _ = await connect(person, "pi", "--write", "--url", gateway.url)
    assert (code, out) == (0, f"{file} has it now.\nWhat was there before is in {file}.before-antiphon.\n")
    code, _, err = await connect(person, "openai-python", "--write", "--url", gateway.url)
    assert code == 2
    assert "there is no one file for it" in err


@pytest.mark.parametrize(
    ("client", "line"), [("codex", 'base_url = "{url}/v1"'), ("claude", "export ANTHROPIC_BASE_URL={url}")]
)
async def test_codex_and_claude_code_are_printed_by_their_own_commands(
    person: Person, gateway: GatewayUnderTest, client: str, line: str
) -> None:
    code, out, _ = await connect(person, client, "--url", gateway.url, "--model", "mock")
    assert code == 0
    assert line.format(url=gateway.url) in out
    code, out, _ = await connect(person, client, "--write", "--url", gateway.url)
    assert code == 0
    assert f"`antiphon {client}` runs it on the gateway" in out


async def test_what_it_does_not_know_and_what_does_not_run_is_an_error(person: Person) -> None:
    code, _, err = await connect(person, "langchian")
    assert code == 2
    assert "antiphon: there is no client `langchian`. Did you mean `langchain`" in err
    person.environment["ANTIPHON_PORT"] = str(free_port())
    code, _, err = await connect(person, "aider")
    assert code == 2
    assert "no gateway is running. Start one with `antiphon`" in err
