"""What a compaction replaces, and what it keeps word for word."""

from typing import Any

import msgspec
import pytest
from support.exchanges import make_environment
from support.items import assistant, call_output, developer, function_call, user

from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.conversation import MOST_KEPT, items_to_window
from antiphon.errors import InvalidRequest
from antiphon.sealing import CompactedText, KeptItems, Sealer, text_to_compacted
from antiphon.wire.responses import CreateResponse

Item = dict[str, Any]

MARK = "sealed "
SEALER = Sealer(lambda text: MARK + text, lambda blob: blob.removeprefix(MARK) if blob.startswith(MARK) else None)
TRIGGER = {"type": "compaction_trigger"}
F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


def compaction(summary: str, *kept: Item, instructions: list[Item] | None = None) -> Item:
    text = CompactedText(summary, KeptItems(instructions or [], list(kept))).to_text()
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": SEALER.seal(text)}


def exchange(own: list[Item], history: list[Item] | None = None, **fields: Any) -> Exchange:
    request = CreateResponse(model="m", input=own, store=False, **fields)
    return Exchange(request, [EngineKnowledge(PLAIN)], make_environment(sealer=SEALER), history=history or [])


def contents(own: list[Item], history: list[Item] | None = None) -> list[Any]:
    """The texts of the chat messages, in order, without the words that introduce a summary."""
    messages = exchange(own, history).chat.messages
    return [str(message.content).rpartition("summary of it:\n\n")[2] for message in messages]


# ---- what it replaces ------------------------------------------------------------------------------------------------


def test_the_newest_compaction_replaces_what_precedes_it_inline_and_in_the_history() -> None:
    items = [user("One"), compaction("Old"), assistant("Two"), compaction("New"), user("Three")]
    for earlier in range(len(items)):
        assert contents(items[earlier:], items[:earlier]) == ["New", "Three"]


def test_later_items_only_append_to_the_prompt() -> None:
    before = [developer("Be kind"), user("One"), assistant("Two"), compaction("New", user("One"))]
    whole = contents([*before, assistant("Three"), user("Four")])
    assert whole == ["Be kind", "New", "One", "Three", "Four"]
    assert contents(before) == whole[:3]


def test_leading_instructions_stay() -> None:
    items = [developer("Be kind"), {"role": "system", "content": "Be brief"}, user("One"), developer("Late"), compaction("New")]
    assert contents([*items, user("Two")]) == ["Be kind\n\nBe brief", "New", "Two"]
    assert contents([user("Two")], items) == ["Be kind\n\nBe brief", "New", "Two"]


def test_instructions_that_lead_this_request_stay_too() -> None:
    own = [developer("Be kind"), user("Two"), compaction("New"), user("Three")]
    assert contents(own, [user("One")]) == ["Be kind", "New", "Three"]


def test_the_instructions_in_the_seal_count_if_nothing_was_sent_before_it() -> None:
    sealed = compaction("New", user("One"), instructions=[developer("Be kind")])
    assert contents([sealed, user("Two")]) == ["Be kind", "New", "One", "Two"]
    assert contents([developer("Be brief"), sealed, user("Two")]) == ["Be brief", "New", "One", "Two"]


def test_tools_in_items_that_were_replaced_are_still_offered() -> None:
    search = {"type": "tool_search_output", "call_id": "s", "status": "completed", "execution": "client", "tools": [F]}
    added = {"type": "additional_tools", "role": "developer", "tools": [{**F, "name": "g"}]}
    asked = {"type": "tool_search_call", "call_id": "s", "arguments": {}, "execution": "client"}
    chat = exchange([added, user("One"), asked, search, compaction("New"), user("Two")]).chat
    assert [tool.function.name for tool in chat.tools or ()] == ["g", "f"]
    assert len(chat.messages) == 2


def test_a_compaction_that_cannot_be_opened_replaces_nothing() -> None:
    foreign = {"type": "compaction", "encrypted_content": "gAAAA"}
    started = exchange([user("One"), foreign, user("Two")])
    assert [message.content for message in started.chat.messages][::2] == ["One", "Two"]
    assert started.notices == ["input[1]: a compaction of another server cannot be opened here"]
    # An older one that can be opened still counts.
    assert contents([user("One"), compaction("Old"), foreign, user("Two")])[::2] == ["Old", "Two"]


def test_an_output_whose_call_was_replaced_is_sent_as_a_note() -> None:
    started = exchange([user("One"), function_call("c1"), compaction("New"), call_output("c1", "42"), user("Two")])
    note = started.chat.messages[1]
    assert (note.role, note.content) == ("user", "The result of an earlier tool call:\n42")
    assert started.notices == ["input[3]: the call of this output was compacted, so the output was sent as a note"]


def test_an_output_whose_call_was_kept_follows_its_call() -> None:
    messages = exchange([compaction("New", user("One"), function_call("c1")), call_output("c1", "42")]).chat.messages
    assert [message.role for message in messages] == ["user", "user", "assistant", "tool"]


def test_items_are_named_by_their_place_in_the_request() -> None:
    with pytest.raises(InvalidRequest) as caught:
        exchange([user("One"), user("Two"), compaction("New"), {"role": "user", "content": 5}])
    assert caught.value.param == "input[3].content"


def test_a_reference_to_what_was_replaced_is_left_out() -> None:
    items = [{**user("One"), "id": "msg_1"}, compaction("New"), {"type": "item_reference", "id": "msg_1"}, user("Two")]
    assert contents(items) == ["New", "Two"]


BROKEN: list[Item] = [{"type": ["compaction"]}, {"role": ["user"]}, {"type": "compaction", "encrypted_content": 5}]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_malformed_item_is_a_bad_request_whatever_is_wrong_with_it(broken: Item) -> None:
    with pytest.raises(InvalidRequest):
        exchange([user("One"), compaction("New"), broken])


# ---- triggers --------------------------------------------------------------------------------------------------------


def test_only_the_trigger_of_this_request_counts() -> None:
    chat = exchange([user("Two")], [user("One"), TRIGGER], tools=[F]).chat
    assert [message.content for message in chat.messages] == ["One", "Two"]
    assert chat.tools
    assert "hand-over" in str(exchange([TRIGGER], [user("One")]).chat.messages[-1].content)


def test_a_trigger_that_was_followed_by_its_compaction_is_done_with() -> None:
    assert contents([user("One"), TRIGGER, compaction("New"), user("Two")]) == ["New", "Two"]


def test_a_trigger_has_to_be_the_last_item() -> None:
    with pytest.raises(InvalidRequest) as caught:
        exchange([TRIGGER, user("Two")], [user("One")])
    assert caught.value.param == "input[0]"


def test_a_summary_has_no_format() -> None:
    schema = {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
    request = {"model": "m", "input": [user("One"), TRIGGER], "text": {"format": schema, "verbosity": "low"}}
    started = Exchange(msgspec.convert(request, CreateResponse), [EngineKnowledge(PLAIN)], make_environment(sealer=SEALER))
    assert "response_format" not in msgspec.to_builtins(started.chat)
    assert [message.role for message in started.chat.messages] == ["user", "user"]


# ---- what it keeps ---------------------------------------------------------------------------------------------------


def kept(*items: Item) -> KeptItems:
    return items_to_window([*items, TRIGGER], SEALER.open, earlier=0, sent=0).to_kept()


def test_the_last_message_of_the_user_and_the_newest_step_are_kept() -> None:
    step = [function_call("c2"), call_output("c2", "x" * 2 * MOST_KEPT)]
    found = kept(
        developer("Be kind"), user("One"), assistant("Two"), user("Three"), function_call("c1"), call_output("c1"), *step
    )
    assert found == KeptItems([developer("Be kind")], [user("Three"), *step])


def test_more_steps_are_kept_as_far_as_there_is_room() -> None:
    long = [user("One"), assistant("x" * MOST_KEPT * 8), user("Two")]
    steps = [[function_call(f"c{number}"), call_output(f"c{number}", "y" * 5000)] for number in range(5)]
    found = kept(*long, *(item for step in steps for item in step)).items
    assert found == [user("Two"), *(item for step in steps[2:] for item in step)]


def test_messages_right_before_the_last_one_are_kept_as_far_as_there_is_room() -> None:
    start = [user("One"), assistant("x" * 8000)]
    assert kept(*start, developer("Now"), user("Two"), user("Three")).items == [developer("Now"), user("Two"), user("Three")]
    assert kept(*start, user("y" * 8000), user("Three")).items == [user("Three")]


def test_a_second_compaction_keeps_what_the_first_one_kept() -> None:
    first = compaction("Old", user("Build it"), function_call("c1"), call_output("c1"), instructions=[developer("Be kind")])
    step = [function_call("c2"), call_output("c2", "x" * 500)]
    assert kept(first, *step) == KeptItems([developer("Be kind")], [user("Build it"), *step])


def test_what_was_sealed_is_read_again_as_it_was() -> None:
    compacted = CompactedText("A\x1eB", KeptItems([developer("x")], [user("y")]))
    assert text_to_compacted(compacted.to_text()) == CompactedText("AB", KeptItems([developer("x")], [user("y")]))
    assert text_to_compacted("Only a summary") == CompactedText("Only a summary", KeptItems())
    assert text_to_compacted("A thought\x1e{") == CompactedText("A thought\x1e{", KeptItems())
