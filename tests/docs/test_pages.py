"""The pages of the documents: their links lead somewhere, and their pictures and programs are true."""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from support import settings_page
from support.doc_blocks import FENCE, PAGES, ROOT, WRITTEN, Block, blocks
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

from antiphon.settings.tables import ToolSettings

BLOCKS = list(blocks())
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Pages whose programs are run here; those of docs/clients.md need the clients, and those of docs/library.md have a test.
PROGRAMS = [block for block in BLOCKS if block.language == "python" and block.page in ("README.md", "docs/quick_start.md")]
# A picture of events is named after the recorded stream that it shows.
PICTURES = re.findall(r"^`(\w+)`\n\n```text\n(.*?)^```", (ROOT / "docs/events.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_something(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        if path.startswith(("http:", "https:", "mailto:")):
            continue
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in set(anchors(file)), target


def text_of(page: Path) -> str:
    """Without blocks of code, in which a comment looks like a heading, and brackets like a link."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return LINK.findall(text_of(page))


def anchors(page: Path) -> Iterator[str]:
    """As GitHub makes them: of two equal headings, the second one gets a number."""
    seen = Counter[str]()
    for heading in re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        yield f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
        seen[anchor] += 1


def test_the_anchor_of_a_heading_is_that_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# What `a` is, and why\n## [A link](b.md) here\n## Again\n```sh\n# no heading\n[no](link)\n```\n## Again\n"
    )
    assert [*anchors(page)] == ["what-a-is-and-why", "a-link-here", "again", "again-1"]
    assert links(page) == ["b.md"]


def test_the_map_has_every_page() -> None:
    named = {(ROOT / "docs" / target).resolve() for target in links(ROOT / "docs" / "index.md")}
    pages = {page for page in PAGES if page.name not in ("README.md", "index.md")}
    assert sorted(page.name for page in pages - named) == []


def test_the_readme_links_at_most_ten_pages() -> None:
    named = {target.partition("#")[0] for target in links(ROOT / "README.md")}
    pages = sorted(name for name in named if name.startswith("docs/") and name.endswith(".md"))
    assert "docs/index.md" in pages
    assert len(pages) <= 10, pages


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = (target.partition("#")[0] for target in links(page))
        waiting += [(page.parent / target).resolve() for target in targets if target and not target.startswith("http")]
    assert sorted({*PAGES} - reached) == []


def test_the_page_of_settings_is_what_the_source_says() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page()


def test_the_page_of_settings_has_every_table_of_a_tool() -> None:
    assert {f"[tools.{name}]" for name in ToolSettings.__struct_fields__} <= settings_page.GROUPS.keys()


def test_there_are_pictures_and_programs() -> None:
    assert len(PICTURES) >= 5
    assert {*PAGES} <= {*WRITTEN}
    assert PROGRAMS


@pytest.mark.parametrize(("stream", "picture"), PICTURES, ids=lambda text: text[:40].partition("\n")[0])
def test_a_picture_of_events_is_what_a_recorded_stream_becomes(stream: str, picture: str) -> None:
    drawn = re.findall(r"(response\.[\w.]+)", picture)
    written = (ROOT / "tests/golden/events" / f"{stream}.sse").read_text(encoding="utf-8")
    types = re.findall(r"^event: (.+)$", written, re.MULTILINE)
    repeated = [type for type, group in groupby(types) if len(list(group)) > 1]
    assert drawn == [type for type, _ in groupby(types)]
    assert all(f"{type}  × n" in picture for type in repeated)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda block: block.name)
async def test_a_program_runs(program: Block, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    text = program.text.replace("http://127.0.0.1:8484", gateway.url)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert b"Hello world" in output
    assert engine.requests
