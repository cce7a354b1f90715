"""docs/comparison.md is what `make bench` keeps, a table for each part."""

from pathlib import Path

import pytest

from bench import page


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(page, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_the_page_has_the_parts_that_were_measured_in_their_order(results: Path) -> None:
    page.keep("choices", "| c |\n")
    page.keep("gateways", "| g |\n\n")
    text = page.page()
    assert (
        text.index("## Beside nginx and LiteLLM") < text.index("| g |\n\n## Required calls and schemas") < text.index("| c |\n")
    )
    assert "## The stores" not in text


def test_a_part_that_is_measured_again_replaces_what_was_kept(results: Path) -> None:
    page.keep("state", "| old |")
    page.keep("state", "| new |")
    assert "| new |" in page.page()
    assert "| old |" not in page.page()


def test_a_part_that_was_not_measured_here_stays_as_it_was(results: Path) -> None:
    page.keep("store", "| s |")
    page.keep("choices", "| c |")
    before = page.page()
    for file in results.iterdir():
        file.unlink()
    page.keep("choices", "| newer |")
    assert page.page(before) == before.replace("| c |", "| newer |")
