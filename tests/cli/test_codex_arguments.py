"""What `antiphon codex` keeps of its arguments, and what reaches Codex."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon.cli.codex_arguments import named_model
from antiphon.cli.commands import app
from antiphon.settings import Settings


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    """The arguments for Codex, and the options, of each run."""
    seen: list[tuple[list[str], dict[str, Any]]] = []

    def run_codex(settings: Settings, arguments: Sequence[str], **options: Any) -> int:
        seen.append((list(arguments), options))
        return 0

    monkeypatch.setattr("antiphon.cli.commands.run_codex", run_codex)
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
        ["--full-auto"],
        ["--unknown", "-x"],
    ],
    ids=" ".join,
)
def test_what_is_for_codex_reaches_codex_as_it_is(arguments: list[str], runs: list[tuple[list[str], dict[str, Any]]]) -> None:
    assert type_codex(*arguments) == ""
    assert runs == [(arguments, {"show": False, "full": False, "file": None})]


@pytest.mark.parametrize("written", [["--config", "{}"], ["--config={}"]], ids=" ".join)
@pytest.mark.parametrize("name", ["mine.toml", "a=b.toml"])
def test_a_file_is_antiphons_configuration(
    name: str, written: list[str], runs: list[tuple[list[str], dict[str, Any]]], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text("port = 1234\n")
    own = [word.format(file) for word in written]
    assert type_codex(*own, "--config", "model=phi4", "exec", "Say hello", "--full") == ""
    assert runs == [(["--config", "model=phi4", "exec", "Say hello"], {"show": False, "full": True, "file": file})]


def test_everything_after_two_dashes_is_for_codex(runs: list[tuple[list[str], dict[str, Any]]]) -> None:
    type_codex("--print", "exec", "--", "--full", "--config", "x.toml", "--", "-h")
    assert runs == [
        (["exec", "--full", "--config", "x.toml", "--", "-h"], {"show": True, "full": False, "file": None}),
    ]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_antiphons_if_nothing_is_for_codex(flag: str, runs: list[tuple[list[str], dict[str, Any]]]) -> None:
    assert "Run Codex on the gateway" in type_codex("--full", flag)
    assert runs == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--config", "nowhere.toml"], "cannot read nowhere.toml"), (["--config"], "requires an argument")],
)
def test_a_configuration_that_is_missing_is_an_error(
    arguments: list[str], message: str, runs: list[tuple[list[str], dict[str, Any]]]
) -> None:
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
