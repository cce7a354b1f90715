"""The schemas of tools that only Anthropic's models know, beside the types of its SDK."""

import typing
from typing import Any

import pytest
from anthropic.types import beta
from conformance.sdk import variants

from antiphon.core.protocols.messages.client_tools import TOOLSETS, member_to_function
from antiphon.core.protocols.messages.tools import ToolReader

FAMILIES = {
    "computer_toolset": (beta.BetaComputerMemberInput, beta.BetaComputerMemberName),
    "browser_toolset": (beta.BetaBrowserMemberInput, beta.BetaBrowserMemberName),
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_toolset_has_the_members_that_the_sdk_has(kind: str) -> None:
    inputs, names = FAMILIES[kind]
    # The SDK has both in other orders.
    known = {_name_of(each): each.model_fields for each in variants(inputs)}
    assert set(TOOLSETS[kind].members) == set(typing.get_args(names)) == set(known)
    for name, member in TOOLSETS[kind].members.items():
        schema = member_to_function(name, member)["parameters"]
        fields = {field.alias or field_name: field for field_name, field in known[name].items()}
        assert set(schema["properties"]) == set(fields), name
        assert set(schema["required"]) == {field_name for field_name, field in fields.items() if field.is_required()}, name


def _name_of(kind: type[Any]) -> str:
    """`BetaBrowserLeftClickDragInput`: left_click_drag."""
    words = kind.__name__.removeprefix("BetaBrowser").removeprefix("BetaComputer").removesuffix("Input")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in words).removeprefix("_")


def test_a_member_of_a_toolset_may_be_off_or_wait() -> None:
    reader = ToolReader([])
    configs = {"zoom": {"enabled": False}, "wait": {"defer_loading": True}, "key": None}
    reader.read({"type": "computer_toolset_20260801", "configs": configs}, "tools[0]")
    (namespace,) = reader.tools
    waiting = {tool["name"]: tool.get("defer_loading", False) for tool in namespace["tools"]}
    assert "zoom" not in waiting
    assert [name for name, waits in waiting.items() if waits] == ["wait"]
    assert (namespace["name"], reader.toolsets, reader.notices) == ("computer", {"computer"}, [])
