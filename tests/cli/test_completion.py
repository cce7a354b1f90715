"""Shell completion: the script that a shell reads, and what it offers."""

import asyncio
import shlex

import pytest
from support.commands import ANTIPHON, bare_environment


async def shell(command: str, **environment: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{command}; exit $?", stdout=asyncio.subprocess.PIPE, env=bare_environment(**environment)
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_the_script_for_the_shell_is_printed_and_is_valid() -> None:
    code, script = await shell(f"{shlex.join(ANTIPHON)} --show-completion")
    assert code == 0
    assert "complete -o default -F _antiphon_completion antiphon" in script
    assert (await shell(f"bash -n <<'EOF'\n{script}\nEOF\n true"))[0] == 0


@pytest.mark.parametrize(
    ("words", "at", "offered"),
    [
        ("antiphon do", "1", ["doctor"]),
        ("antiphon ch", "1", ["chat"]),
        ("antiphon serve --log-", "2", ["--log-level", "--log-format"]),
    ],
)
async def test_commands_and_options_are_completed(words: str, at: str, offered: list[str]) -> None:
    variables = {"_ANTIPHON_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": at}
    _, out = await shell(shlex.join(ANTIPHON), **variables)
    assert out.split() == offered


async def test_the_flags_of_completion_do_not_start_a_gateway() -> None:
    code, out = await shell(f"{shlex.join(ANTIPHON)} --help")
    assert code == 0
    assert "--install-completion" in out
