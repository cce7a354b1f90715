"""The page about faults, and the table that it is made from."""

from faults.page import PAGE, page
from faults.rows import ROWS


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python tests/faults/page.py"


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) >= 150
    assert len(set(names)) == len(names)
