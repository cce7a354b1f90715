"""What easy functions become is what the tools of Codex take: its own apply_patch is run on generated edits."""

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.codex import FOLDER, Codex, arguments, calls
from support.engine import MockEngine, call, text
from support.gateway import running_gateway

from antiphon.core.toolbox.easier_tools.patches import FREEFORM

pytestmark = pytest.mark.timeout(120, func_only=True)

Patch = Callable[..., subprocess.CompletedProcess[bytes]]

FUNCTIONS = {function.name: function for function in FREEFORM}
# What a file may have in it that looks like something else.
WORDS = ["", " ", "\t", "a", "b", "  a", "é", "日本", "\u2028", "\x0c", "\\n", '"', "+", "-", "+a", "-a", "@@", "@@ a"]
MARKERS = ["*** Begin Patch", "*** End Patch", "*** Add File: x", "*** Delete File: x", "*** End of File", "*** Move to: x"]
PATHS = ["a.txt", "a b.txt", " sub/dir/ä.py ", "-x", "*** End Patch", "'quoted'", "./here", "a.txt.orig"]
SEEDS = range(30)


@pytest.fixture
def apply_patch(binary: Path, tmp_path: Path) -> Patch:
    """Codex is apply_patch when it is started by that name."""
    (program,) = FOLDER.glob("node_modules/@openai/codex-*/vendor/*/bin/codex")
    alias, folder = tmp_path / "apply_patch", tmp_path / "files"
    alias.symlink_to(program)
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)}

    def run(function: str, **members: Any) -> subprocess.CompletedProcess[bytes]:
        patch = json.loads(FUNCTIONS[function].tool_arguments(json.dumps(members)))["input"]
        return subprocess.run([alias], input=patch.encode(), cwd=folder, env=environment, capture_output=True, timeout=60)

    return run


def done(run: subprocess.CompletedProcess[bytes]) -> None:
    assert run.returncode == 0, run.stderr.decode()


def lines_of(text: str) -> list[str]:
    """As Codex normalises them."""
    return [line.rstrip("\r") for line in (text[:-1] if text.endswith("\n") else text).split("\n")] if text else []


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def some_text(chance: random.Random, most: int = 6) -> str:
    lines = [chance.choice([*WORDS, *MARKERS]) for _ in range(chance.randint(0, most))]
    return chance.choice(["\n", "\r\n"]).join(lines) + chance.choice(["", "\n", "\n\n"])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_is_written_edited_and_deleted_as_the_functions_say(apply_patch: Patch, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice(PATHS)
    file = tmp_path / "files" / path.strip()
    content = some_text(chance)
    done(apply_patch("write_file", path=path, content=content))
    # A file has a line at least: the grammar requires one.
    lines = lines_of(content) or [""]
    assert file.read_bytes().decode() == text_of(lines)
    new = some_text(chance, most=3)
    first = chance.randrange(len(lines))
    old = lines[first : chance.randint(first + 1, len(lines))]
    done(apply_patch("edit_file", path=path, old_lines=chance.choice([text_of(old), old]), new_lines=new))
    # The first place that has these lines.
    at = next(at for at in range(len(lines)) if lines[at : at + len(old)] == old)
    lines[at : at + len(old)] = lines_of(new)
    assert file.read_bytes().decode() == text_of(lines)
    more = some_text(chance) + "end"
    done(apply_patch("edit_file", path=path, old_lines="", new_lines=more))
    lines += lines_of(more)
    assert file.read_bytes().decode() == text_of(lines)
    done(apply_patch("delete_file", path=path))
    assert not file.exists()


def test_an_absolute_path_and_an_old_file_are_taken(apply_patch: Patch, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "a"
    done(apply_patch("write_file", path=str(file), content="one\ntwo"))
    done(apply_patch("write_file", path=str(file), content="three"))
    assert file.read_text() == "three\n"


def test_the_line_ends_of_a_file_are_those_that_it_had(apply_patch: Patch, tmp_path: Path) -> None:
    file = tmp_path / "files" / "a"
    file.write_bytes(b"one\r\ntwo\r\n")
    done(apply_patch("edit_file", path="a", old_lines="one\ntwo\n", new_lines="1\r\n2"))
    assert file.read_bytes() == b"1\r\n2\r\n"


def test_a_carriage_return_inside_a_line_stays(apply_patch: Patch, tmp_path: Path) -> None:
    done(apply_patch("write_file", path="a", content="a\rb\r\r\n"))
    assert (tmp_path / "files" / "a").read_bytes() == b"a\rb\n"


@pytest.mark.parametrize(
    ("function", "members", "reported"),
    [
        ("edit_file", {"path": "a", "old_lines": "", "new_lines": ""}, b"does not contain any lines"),
        ("edit_file", {"path": "a", "old_lines": "nowhere", "new_lines": "x"}, b"Failed to find expected lines"),
        ("write_file", {"path": "a\nb", "content": "x"}, b"Invalid patch"),
        ("delete_file", {}, b"Invalid patch"),
    ],
)
def test_what_is_wrong_is_reported_by_the_tool(
    apply_patch: Patch, tmp_path: Path, function: str, members: dict[str, Any], reported: bytes
) -> None:
    (tmp_path / "files" / "a").write_text("one\n")
    run = apply_patch(function, **members)
    assert run.returncode == 1
    assert reported in run.stderr
    assert (tmp_path / "files" / "a").read_text() == "one\n"


async def test_a_small_model_edits_files_with_codex(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    engine.lists("small-1.5B")
    async with running_gateway(engine) as gateway:
        codex = Codex(binary, gateway.url, tmp_path)
        (codex.repository / "old.txt").write_text("one\ntwo\nthree\n")
        (codex.repository / "gone.txt").write_text("x\n")
        engine.will(
            calls(call("write_file", arguments(path="new.txt", content="Hello"), id="c1")),
            calls(call("edit_file", arguments(path="old.txt", old_lines="two", new_lines="zwei"), id="c2")),
            calls(call("delete_file", arguments(path="gone.txt"), id="c3")),
            calls(call("shell", arguments(command="mv new.txt newer.txt && echo moved"), id="c4")),
            text("Done."),
        )
        run = await codex.does("Edit the files")
    assert run.last_message == "Done."
    assert (codex.repository / "newer.txt").read_text() == "Hello\n"
    assert (codex.repository / "old.txt").read_text() == "one\nzwei\nthree\n"
    assert not (codex.repository / "gone.txt").exists()
    names = [tool["function"]["name"] for tool in engine.last["tools"]]
    assert {"shell", "write_stdin", "write_file", "edit_file", "delete_file"} <= set(names)
    assert not {"exec_command", "apply_patch"} & set(names)
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    made = [each["function"] for message in engine.last["messages"] for each in message.get("tool_calls", ())]
    assert [(each["name"], json.loads(each["arguments"])) for each in made] == [
        ("write_file", {"path": "new.txt", "content": "Hello\n"}),
        ("edit_file", {"path": "old.txt", "old_lines": "two\n", "new_lines": "zwei\n"}),
        ("delete_file", {"path": "gone.txt"}),
        ("shell", {"command": "mv new.txt newer.txt && echo moved"}),
    ]
    results = [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]
    assert "moved" in results[-1]
