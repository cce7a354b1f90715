"""What `antiphon claude` keeps of its arguments, and what reaches Claude Code."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.cli.claude.arguments import named_model, needs_model
from antiphon.cli.clients.program import Choice
from antiphon.cli.commands import app
from antiphon.settings.settings import Settings


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Choice]:
    """What was chosen for each run."""
    seen: list[Choice] = []

    def run_claude(settings: Settings, choice: Choice) -> int:
        seen.append(choice)
        return 0

    monkeypatch.setattr("antiphon.cli.claude.command.run_claude", run_claude)
    return seen


def type_claude(*arguments: str) -> str:
    return CliRunner().invoke(app, ["claude", *arguments]).output


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "Say hello"],
        ["-p", "Say hello", "--output-format", "json"],
        ["--output-format=json", "--print", "Say hello"],
        ["--model", "phi4", "--help"],
        ["mcp", "add", "docs", "--url", "https://example.com/mcp"],
        ["-c"],
        ["--unknown", "-x"],
    ],
    ids=" ".join,
)
def test_what_is_for_claude_code_reaches_it_as_it_is(arguments: list[str], runs: list[Choice]) -> None:
    assert type_claude(*arguments) == ""
    assert runs == [Choice(arguments)]


def test_everything_after_two_dashes_is_for_claude_code(runs: list[Choice]) -> None:
    type_claude("--anyway", "--", "--full", "--print", "Say hello", "--", "-h")
    assert runs == [Choice(["--full", "--print", "Say hello", "--", "-h"], anyway=True)]


def test_own_flags_come_first_and_those_that_claude_code_does_not_have_may_come_later(
    runs: list[Choice], tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("port = 1234\n")
    type_claude("--url=http://[::1]:8484", "--config", str(file), "-p", "Say hello", "--full")
    assert runs == [Choice(["-p", "Say hello"], full=True, url="http://[::1]:8484", file=file)]


def test_print_in_front_is_antiphons(runs: list[Choice]) -> None:
    type_claude("--print", "-p", "Say hello")
    assert runs == [Choice(["-p", "Say hello"], only_prints=True)]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_antiphons_if_nothing_is_for_claude_code(flag: str, runs: list[Choice]) -> None:
    assert "Run Claude Code on the gateway" in type_claude("--full", flag)
    assert runs == []


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["-p", "Say hello"], None),
        (["--model", "big"], "big"),
        (["-p", "--model=big", "Say hello"], "big"),
        (["-p", "--", "--model=big"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_model_that_claude_code_is_told_is_known(arguments: list[str], model: str | None) -> None:
    assert named_model(arguments) == model


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ([], True),
        (["-p", "Say hello"], True),
        (["update is broken, fix it"], True),
        (["--model", "mcp"], True),
        (["-c"], True),
        (["--", "--help"], True),
        (["--version"], False),
        (["-p", "--help"], False),
        (["mcp", "list"], False),
        (["--settings", "x.json", "plugin", "list"], False),
        (["doctor"], False),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else None,
)
def test_a_model_is_needed_for_all_but_what_claude_code_does_by_itself(arguments: list[str], needed: bool) -> None:
    assert needs_model(arguments) is needed
