"""docs/recipes.md: every program in Python runs as it is there, on a scripted engine. `tests/clients` runs the others."""

import asyncio
from pathlib import Path

import pytest
from support.doc_programs import prepared, replaced
from support.documented_programs import Programs
from support.engine import MockEngine
from support.recipes import RECIPES, programs

PYTHON = programs("python")


def test_every_recipe_has_a_program_in_both_languages() -> None:
    assert list(PYTHON) == list(programs("js")) == list(RECIPES)


@pytest.mark.parametrize("recipe", PYTHON)
async def test_a_recipe_runs(recipe: str, engine: MockEngine, tmp_path: Path, sdk_programs: Programs) -> None:
    async with prepared(RECIPES[recipe], engine, tmp_path) as words:
        ran = await asyncio.to_thread(sdk_programs.run, replaced(PYTHON[recipe], words), tmp_path)
    assert ran.code == 0, ran.errors
    assert RECIPES[recipe].is_shown_by(ran.output), ran.output
