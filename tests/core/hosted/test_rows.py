"""The rows of hosted tools: each item of the API has one, and recordings have what they need."""

from collections import Counter
from typing import Any, get_args

import msgspec
import pytest
from support.engine import text
from support.recorded import record

from antiphon.core.hosted.rows import BY_KIND, HOSTED
from antiphon.core.prompt.item_types import ITEM_TYPES, OF_CLIENTS
from antiphon.core.prompt.stored_form import STORED
from antiphon.core.recording.file import NotARecording, file_to_recording, recording_to_file
from antiphon.wire.hosted_items import INCLUDABLE, HostedItem, type_of

# The definitions of all tools, each as it is without settings.
TOOLS: Any = {kind: definition() for tool in HOSTED for kind, definition in tool.definitions.items()}


def test_every_item_of_a_hosted_tool_has_a_row() -> None:
    listed = {row.type for tool in HOSTED for row in tool.items}
    assert {type_of(item) for item in get_args(HostedItem)} <= listed


def test_a_type_has_one_row_and_an_id_says_the_type_of_its_item() -> None:
    rows = [*OF_CLIENTS, *(row for tool in HOSTED for row in tool.items)]
    assert len(rows) == len(ITEM_TYPES)
    prefixes = Counter(row.prefix for row in rows if row.prefix != "item")
    assert set(prefixes.values()) == {1}


def test_a_call_that_is_stored_with_what_the_model_read_is_otherwise_the_same() -> None:
    for item, stored in STORED.items():
        assert stored.__struct_fields__ == (*item.__struct_fields__, "shown_result")
        assert type_of(stored) == type_of(item)
        read = ITEM_TYPES[type_of(item)].read
        assert read is not None
        assert f"{type_of(item)}.{read.included}" in INCLUDABLE


# ---- recordings ------------------------------------------------------------------------------------------------------


def settings_of(**options: Any) -> dict[str, Any]:
    recording, _ = record({}, text("Hi."), **options)
    settings: dict[str, Any] = msgspec.json.decode(recording_to_file(recording, "1"))["settings"]
    return settings


def tools_of(**settings: Any) -> set[str]:
    """Those of a recording whose file has these settings."""
    file = msgspec.json.decode(recording_to_file(record({}, text("Hi."))[0], "1"))
    environment = file_to_recording(msgspec.json.encode({**file, "settings": settings})).environment
    assert environment is not None
    return set(environment.tools)


def test_a_recording_says_of_each_tool_whether_it_was_run_and_how() -> None:
    names = ["mcp", "web_search", "file_search", "code_interpreter", "image_generation"]
    assert [settings_of()[name] for name in names] == [None, None, None, None, False]
    assert [settings_of(tools=TOOLS)[name] for name in names] == [[], True, False, "1g", True]
    assert [name for name in settings_of() if name in names] == names, "in the order of the first files"


def test_what_was_recorded_makes_the_tools_again() -> None:
    assert tools_of(**settings_of(tools=TOOLS)) == BY_KIND.keys()
    assert tools_of(**settings_of()) == set()


def test_a_recording_of_a_version_that_did_not_have_a_tool_yet_can_be_read() -> None:
    assert tools_of(mcp=["a"]) == {"mcp"}
    assert tools_of(code_interpreter="4g") == {"code_interpreter", "shell", "hosted_shell"}
    assert tools_of() == set()


@pytest.mark.parametrize("wrong", [{"web_search": "yes"}, {"mcp": 5}, {"code_interpreter": []}, {"most_rounds": "many"}])
def test_a_recording_whose_settings_are_wrong_is_damaged(wrong: dict[str, Any]) -> None:
    with pytest.raises(NotARecording, match="damaged"):
        tools_of(**wrong)
