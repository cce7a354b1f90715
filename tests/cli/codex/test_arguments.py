"""What `antiphon codex` keeps of its arguments, and what reaches Codex."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.cli.clients.program import Choice
from antiphon.cli.codex.arguments import named_model, needs_model, without_model
from antiphon.cli.commands import app
from antiphon.settings.settings import Settings


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Choice]:
    """What was chosen for each run of Codex."""
    seen: list[Choice] = []

    def run_codex(settings: Settings, choice: Choice) -> int:
        seen.append(choice)
        return 0

    monkeypatch.setattr("antiphon.cli.codex.command.run_codex", run_codex)
    return seen


def type_codex(*arguments: str) -> str:
    return CliRunner().invoke(app, ["codex", *arguments]).output


@pytest.mark.parametrize(
    "arguments",
    [
        ["-mphi4"],
        ["-chide_agent_reasoning=true", "exec", "Say hello"],
        ["--config", "model=phi4", "exec", "Say hello"],
        ["--config=model=phi4"],
        ["exec", "--config", 'projects."/home/me".trust_level="trusted"', "Say hello"],
        ["exec", "--help"],
        ["exec", "-h"],
        ["-m", "phi4", "--help"],
        ["mcp", "add", "docs", "--url", "https://example.com/mcp"],
        ["mcp", "add", "docs", "--url=https://example.com/mcp"],
        ["--full-auto"],
        ["--unknown", "-x"],
    ],
    ids=" ".join,
)
def test_what_is_for_codex_reaches_codex_as_it_is(arguments: list[str], runs: list[Choice]) -> None:
    assert type_codex(*arguments) == ""
    assert runs == [Choice(arguments)]


@pytest.mark.parametrize("written", [["--config", "{}"], ["--config={}"]], ids=" ".join)
@pytest.mark.parametrize("name", ["mine.toml", "a=b.toml"])
def test_a_file_is_antiphons_configuration(name: str, written: list[str], runs: list[Choice], tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("port = 1234\n")
    own = [word.format(file) for word in written]
    assert type_codex(*own, "--config", "model=phi4", "exec", "Say hello", "--full") == ""
    assert runs == [Choice(["--config", "model=phi4", "exec", "Say hello"], full=True, file=file)]


def test_everything_after_two_dashes_is_for_codex(runs: list[Choice]) -> None:
    type_codex("--anyway", "exec", "--", "--full", "--config", "x.toml", "--", "-h")
    assert runs == [Choice(["exec", "--full", "--config", "x.toml", "--", "-h"], anyway=True)]


@pytest.mark.parametrize("written", [["--url", "http://[::1]:8484"], ["--url=http://[::1]:8484"]], ids=" ".join)
def test_a_url_in_front_of_what_is_for_codex_names_the_gateway(written: list[str], runs: list[Choice]) -> None:
    type_codex("--full", *written, "exec", "Say hello")
    assert runs == [Choice(["exec", "Say hello"], full=True, url="http://[::1]:8484")]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_antiphons_if_nothing_is_for_codex(flag: str, runs: list[Choice]) -> None:
    assert "Run Codex on the gateway" in type_codex("--full", flag)
    assert runs == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["--config"], "requires an argument"),
        (["--url"], "requires an argument"),
    ],
)
def test_a_configuration_that_is_missing_is_an_error(arguments: list[str], message: str, runs: list[Choice]) -> None:
    assert message in " ".join(type_codex(*arguments).split())
    assert runs == []


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["exec", "Say hello"], None),
        (["-m", "big"], "big"),
        (["-mbig"], "big"),
        (["-m=big"], "big"),
        (["--model", "big"], "big"),
        (["--model=big"], "big"),
        (["-c", 'model="big"'], "big"),
        (["-cmodel=big"], "big"),
        (["--config", "model = 'big'"], "big"),
        (["--config=model=big"], "big"),
        (["-c", "model=small", "-c", "model=big"], "big"),
        (["-c", "model=small", "-m", "big"], "big"),
        (["-m", "big", "-c", "model=small"], "big"),
        (["-c", "model_provider=big"], None),
        (["exec", "--", "-mbig"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_model_that_codex_is_told_is_known(arguments: list[str], model: str | None) -> None:
    assert named_model(arguments) == model


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ([], []),
        (["-m", "big"], []),
        (["-mbig"], []),
        (["--model", "big"], []),
        (["--model=big", "exec", "Say hello"], ["exec", "Say hello"]),
        (["-c", "model=big"], ["-c", "model=big"]),
        (["--models"], ["--models"]),
    ],
    ids=lambda value: " ".join(value) or "nothing",
)
def test_what_is_left_without_the_model(arguments: list[str], left: list[str]) -> None:
    assert without_model(arguments) == left


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["-V"],
        ["--help"],
        ["exec", "--help"],
        ["-m", "big", "-h"],
        ["mcp", "list"],
        ["-c", "x=1", "--profile", "exec", "mcp", "add", "docs", "--", "npx", "docs"],
        ["--oss", "login", "status"],
        ["completion", "bash"],
        ["features", "list"],
    ],
    ids=" ".join,
)
def test_no_model_is_needed_for_what_codex_does_by_itself(arguments: list[str]) -> None:
    assert not needs_model(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["Say hello"],
        ["login is broken, fix it"],
        ["-m", "mcp"],
        ["--model=mcp"],
        ["exec", "login"],
        ["e", "help"],
        ["resume", "--last"],
        ["fork"],
        ["review"],
        ["app-server"],
        ["--", "--help"],
        ["exec", "--", "--version"],
    ],
    ids=" ".join,
)
def test_a_model_is_needed_for_all_else(arguments: list[str]) -> None:
    assert needs_model(arguments)
