"""docs/messages.md names every field, block and tool that the gateway knows of Anthropic's API."""

from pathlib import Path

from antiphon.core.protocols.messages.blocks import FOREIGN, READERS, RESULTS
from antiphon.core.protocols.messages.tools import TYPES
from antiphon.wire.messages import CreateMessage

PAGE = (Path(__file__).parents[2] / "docs" / "messages.md").read_text()


def test_every_field_is_on_the_page() -> None:
    assert [name for name in CreateMessage.__struct_fields__ if f"`{name}" not in PAGE and name != "model"] == []


def test_every_block_is_on_the_page() -> None:
    blocks = {kind for readers in READERS.values() for kind in readers} - {*RESULTS, *FOREIGN}
    assert [kind for kind in sorted(blocks) if f"`{kind}`" not in PAGE] == []


def test_every_tool_is_on_the_page() -> None:
    assert [kind for kind in TYPES if kind != "custom" and f"`{kind}`" not in PAGE] == []
