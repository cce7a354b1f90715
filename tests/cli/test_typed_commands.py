"""Messages name commands of Antiphon as they can be typed: after `make serve`, no PATH leads to `antiphon`."""

import sys
from pathlib import Path

import pytest
from support.commands import bare_environment, shown_by
from support.tiny_model import write_tiny_model

from antiphon.installation import as_typed
from antiphon.logs import to_line
from bench.processes import free_port

NO_PATH = "/nowhere"
# Of the environment that runs the tests.
INSIDE = Path(sys.executable).parent / "antiphon"


def typed_in(folder: Path) -> str:
    return str(INSIDE.relative_to(folder) if INSIDE.is_relative_to(folder) else INSIDE)


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["models"], 0, "Recommended for this machine: {antiphon} pull "),
        (["connect", "nobody"], 2, "`{antiphon} connect` lists them."),
        (["connect", "aider"], 2, "Start one with `{antiphon}`, and run this again"),
        (["connect", "codex"], 0, "# No gateway runs, so its models are not known. Start one with `{antiphon}`, then"),
        (["connect", "claude"], 0, "# No gateway runs, so its models are not known. Start one with `{antiphon}`, then"),
        (["connect", "claude", "--write"], 0, "`{antiphon} claude` runs it on the gateway."),
        (["key", "new", "ada"], 0, "The commands of Antiphon (`{antiphon} codex`, `claude`"),
        (["key", "list"], 0, "There are no keys. `{antiphon} key new NAME` makes one."),
        (["key", "limit", "ada", "--tokens-per-day", "1"], 0, "`{antiphon} key new ada` makes one."),
        (["serve", "--host", "0.0.0.0"], 2, "(`{antiphon} key new NAME` makes one)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
async def test_a_command_names_others_as_they_are_typed(arguments: list[str], code: int, shown: str, tmp_path: Path) -> None:
    own = {"ANTIPHON_DATA_DIR": str(tmp_path), "ANTIPHON_STORE": f"sqlite:{tmp_path / 'store'}", "HOME": str(tmp_path)}
    environment = bare_environment(PATH=NO_PATH, ANTIPHON_PORT=str(free_port()), **own)
    found, out, err = await shown_by(*arguments, env=environment)
    assert found == code
    assert shown.format(antiphon=typed_in(Path.cwd())) in out + err


async def test_after_a_download_it_is_said_what_serves_the_model(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    write_tiny_model(model)
    code, _, err = await shown_by("pull", str(model), env=bare_environment(PATH=NO_PATH))
    assert (code, err) == (0, f"`{typed_in(Path.cwd())} --model {model}` serves it.\n")


def test_only_a_command_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "Start one with `antiphon`: `antiphon pull NAME`. See antiphon.toml, `antiphon.server` and `antiphon-way`."
    assert as_typed(message) == message
    monkeypatch.setenv("PATH", NO_PATH)
    typed = typed_in(Path.cwd())
    assert as_typed(message) == message.replace("`antiphon`", f"`{typed}`").replace("`antiphon pull", f"`{typed} pull")


def test_the_log_of_a_terminal_names_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", NO_PATH)
    typed = typed_in(Path.cwd())
    shown = to_line("probed", {"model": "m", "engine": "e", "learned": {}, "unknown": []})
    assert shown == f"Probed m at e. `{typed} doctor` shows what it can do."
