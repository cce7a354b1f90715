"""docs/recipes.md: every program in Python runs as it is there, on a scripted engine. `tests/clients` runs the others."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from support.doc_programs import prepared, replaced
from support.engine import MockEngine
from support.recipes import RECIPES, programs

PYTHON = programs("python")


def test_every_recipe_has_a_program_in_both_languages() -> None:
    assert list(PYTHON) == list(programs("js")) == list(RECIPES)


@pytest.mark.parametrize("recipe", PYTHON)
async def test_a_recipe_runs(recipe: str, engine: MockEngine, tmp_path: Path) -> None:
    async with prepared(RECIPES[recipe], engine, tmp_path) as words:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", replaced(PYTHON[recipe], words), cwd=tmp_path, stdout=PIPE, stderr=PIPE
        )
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert RECIPES[recipe].is_shown_by(output.decode()), output.decode()
