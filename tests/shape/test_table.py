"""The table, the file of earlier figures, and the command that writes both."""

from pathlib import Path

import pytest
from support.source_trees import make_tree

from shape.__main__ import main
from shape.collected import collected
from shape.table import Figures, Row, names_to_markdown, read_figures, to_markdown, write_figures

ROWS = Row("folders", "3", "≤ 15", names=("core: 20",)), Row("instructions", "1.1", "≤ +3 %", value=1_100_000)
BEFORE = Figures("0.0.1", "Python 3", (Row("instructions", "1.0", value=1_000_000), Row("gone", "7")))


def test_the_table_has_a_target_for_each_figure() -> None:
    assert to_markdown(ROWS).splitlines() == [
        "| what | target | measured |",
        "| --- | --- | --- |",
        "| folders | ≤ 15 | 3 |",
        "| instructions | ≤ +3 % | 1.1 |",
    ]


def test_earlier_figures_are_a_column_and_a_cost_has_its_change() -> None:
    assert to_markdown(ROWS, BEFORE).splitlines() == [
        "| what | target | measured | before |",
        "| --- | --- | --- | --- |",
        "| folders | ≤ 15 | 3 |  |",
        "| instructions | ≤ +3 % | 1.1 (+10.0 %) | 1.0 |",
    ]


def test_names_are_listed_for_rows_that_have_some() -> None:
    assert names_to_markdown(ROWS) == "folders:\n- core: 20"


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    figures = Figures("1.0", "Python 3", ROWS)
    write_figures(tmp_path / "figures.json", figures)
    assert read_figures(tmp_path / "figures.json") == figures


def test_the_command_prints_the_table_of_another_tree_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(tmp_path / "tree", {"core/a.py": "def f(): ...\n"})
    file = tmp_path / "figures.json"
    main(["--static", "--tree", str(tmp_path / "tree"), "--json", str(file)])
    assert "| modules with one definition |  | 1 |" in capsys.readouterr().out
    assert read_figures(file).of == "9.9.9"
    main(["--static", "--tree", str(tmp_path / "tree"), "--before", str(file), "--names"])
    shown = capsys.readouterr().out
    assert "| modules with one definition |  | 1 | 1 |" in shown
    assert "Before: 9.9.9; measured with Python" in shown
    assert "modules with one definition:\n- core/a.py" in shown


def test_the_figures_before_the_tree_was_rebuilt_can_be_read() -> None:
    figures = read_figures(Path(__file__).parents[2] / "shape" / "before.json")
    assert "before the tree was rebuilt" in figures.of
    assert len(figures.rows) > 30


@pytest.mark.parametrize(
    ("output", "count"), [("tests/a.py: 3\n\n3 tests collected in 0.1s\n", 3), ("1 test collected in 1s", 1)]
)
def test_the_tests_that_pytest_finds_are_counted(output: str, count: int) -> None:
    assert collected(output) == count


def test_a_run_that_finds_no_tests_is_an_error() -> None:
    with pytest.raises(ValueError, match="collected nothing"):
        collected("ERROR: not found")
