"""docs/recipes.md: every program in JavaScript, with OpenAI's package for Node."""

from pathlib import Path

import pytest
from support.clients import FOLDER, node_packages, program, run
from support.doc_programs import prepared, replaced
from support.engine import MockEngine
from support.recipes import RECIPES, programs

JAVASCRIPT = programs("js")


@pytest.mark.parametrize("recipe", JAVASCRIPT)
async def test_a_recipe_runs(recipe: str, engine: MockEngine, tmp_path: Path) -> None:
    node_packages()
    # Packages are found beside the file.
    (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
    async with prepared(RECIPES[recipe], engine, tmp_path) as words:
        file = tmp_path / "program.mjs"
        file.write_text(replaced(JAVASCRIPT[recipe], words), encoding="utf-8")
        done = await run([program("node"), str(file)], tmp_path)
    assert done.code == 0, done.errors
    assert RECIPES[recipe].is_shown_by(done.output), done.output
