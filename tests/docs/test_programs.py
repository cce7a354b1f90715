"""Every program in the documents is run, here or by another test, or has a reason why it is not. Every example has a test."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from support.doc_blocks import ROOT, Block, blocks
from support.doc_programs import LANGUAGES, NOT_RUN, RUN_ELSEWHERE, RUN_HERE, Script, prepared, programs, replaced
from support.documented_programs import Programs
from support.engine import MockEngine

CHOSEN = [
    (block, script)
    for page, scripts in RUN_HERE.items()
    for block, script in zip((each for each in programs() if each.page == page), scripts, strict=False)
]


def test_every_program_has_its_place() -> None:
    """A new one in a page is one more than the tests run."""
    run = Counter({page: len(scripts) for page, scripts in RUN_HERE.items()})
    run.update({page: number for page, (_, number) in RUN_ELSEWHERE.items()})
    run.update(name.partition(":")[0] for name in NOT_RUN)
    assert Counter(each.page for each in programs()) == run
    assert not RUN_HERE.keys() & RUN_ELSEWHERE.keys()
    assert NOT_RUN.keys() <= {each.name for each in programs()}


@pytest.mark.parametrize("page", RUN_ELSEWHERE)
def test_the_tests_that_run_the_others_read_their_page(page: str) -> None:
    for file in RUN_ELSEWHERE[page][0]:
        written = (ROOT / file).read_text(encoding="utf-8")
        assert Path(page).stem in written, file


def test_every_block_says_in_which_language_it_is() -> None:
    """One without a language would be run by nobody."""
    assert [each.name for each in blocks() if each.language not in LANGUAGES] == []


def test_every_example_has_a_test() -> None:
    names = [each.stem for each in (ROOT / "examples").glob("*.py")]
    assert names
    assert [name for name in names if not (ROOT / "tests" / "examples" / f"test_{name}.py").is_file()] == []


@pytest.mark.parametrize(("program", "script"), CHOSEN, ids=lambda each: each.page if isinstance(each, Block) else "")
async def test_a_program_runs(
    program: Block, script: Script, engine: MockEngine, tmp_path: Path, sdk_programs: Programs
) -> None:
    async with prepared(script, engine, tmp_path) as words:
        ran = await asyncio.to_thread(sdk_programs.run, replaced(program.text, words), tmp_path)
    assert ran.code == 0, ran.errors
    assert script.is_shown_by(ran.output), ran.output
