"""A recorded session of Claude Code: each prompt begins with the one before it, so that an engine has it in its cache."""

import re
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path

import msgspec
import pytest
from sessions.cached import BILLINGS, EACH_REQUEST, play, with_billing
from sessions.scrub import Scrubber
from sessions.session import CLAUDE_CODE, TURNS, Request, filler, place, read, written
from support.engine import MockEngine
from support.gateway import GatewayUnderTest
from transcripts.differences import Body

from antiphon.core.knowledge.dialects import BY_NAME
from antiphon.core.knowledge.help import FULL_HELP, NO_HELP, Help
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.messages.read import BILLING
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS, request_to_items

SESSION = read()
# By conversation, what the engine gets in it.
Chats = dict[tuple[int, int], list[Body]]


def by_conversation(chats: Iterable[Body]) -> Chats:
    found: Chats = {}
    for request, chat in zip(SESSION, chats, strict=True):
        found.setdefault(request.conversation, []).append(chat)
    return found


def check_prefixes(chats: Chats) -> None:
    """Byte by byte. And two sessions have the same beginning."""
    for conversation in chats.values():
        for before, after in pairwise(conversation):
            assert encoded_messages(after).startswith(encoded_messages(before))
            assert msgspec.json.encode(after.get("tools")) == msgspec.json.encode(before.get("tools"))
    first, second = chats[1, 0][0], chats[2, 0][0]
    assert first["messages"][0] == second["messages"][0]
    # Some engines constrain no answer beside tools, which are then in the first message.
    assert first.get("tools") == second.get("tools")


def encoded_messages(chat: Body) -> bytes:
    """Without the end of the list."""
    return msgspec.json.encode(chat["messages"])[:-1]


def converted(request: Request, number: int, dialect: str, help: Help = NO_HELP) -> Body:
    body = msgspec.json.encode(with_billing(request.body, BILLINGS[EACH_REQUEST], number))
    given = MESSAGES.read(body, request.headers, DEFAULT_LIMITS).request
    chat = request_to_chat(ChatInputs(given, request_to_items(given), BY_NAME[dialect], "m", help=help)).chat
    return dict(msgspec.json.decode(msgspec.json.encode(chat)))


@pytest.mark.parametrize("help", [NO_HELP, FULL_HELP], ids=["large", "small"])
@pytest.mark.parametrize("dialect", BY_NAME)
def test_each_chat_request_begins_with_the_one_before(dialect: str, help: Help) -> None:
    check_prefixes(by_conversation(converted(request, number, dialect, help) for number, request in enumerate(SESSION)))


@pytest.mark.parametrize("help", [NO_HELP, FULL_HELP], ids=["large", "small"])
def test_what_claude_code_says_of_its_environment_stands_before_the_question(help: Help) -> None:
    """It sends that after the question. A small model answers what it has read last."""
    for number, request in enumerate(SESSION):
        said = request.body["messages"]
        if [message["role"] for message in said] != ["user", "system"]:
            continue
        about, question = said[1]["content"], said[0]["content"][-1]["text"]
        messages = converted(request, number, "llamacpp", help)["messages"]
        assert messages[0]["role"] == "system"
        assert (about if isinstance(about, str) else about[0]["text"]) in messages[0]["content"]
        assert (messages[-1]["role"], messages[-1]["content"].endswith(question)) == ("user", True)
    first = [request for request in SESSION if len(request.body["messages"]) == 2]
    assert {request.conversation for request in first} == {(1, 0), (1, 1), (2, 0)}


async def test_so_it_does_through_the_whole_gateway(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await play(gateway.url, SESSION, BILLINGS[EACH_REQUEST])
    check_prefixes(by_conversation(engine.requests))


# ---- the recording ---------------------------------------------------------------------------------------------------


def test_it_has_ten_turns_with_rounds_of_tools_a_sub_agent_and_another_session() -> None:
    main = [request for request in SESSION if request.conversation == (1, 0)]
    assert [turn for turn, _ in groupby(request.turn for request in main)] == list(range(1, TURNS + 1))
    assert len(main) > 2 * TURNS
    assert {request.conversation for request in SESSION} == {(1, 0), (1, 1), (2, 0)}
    used = [block["name"] for message in main[-1].body["messages"] for block in tool_uses(message)]
    assert len(used) == 14
    assert set(used) == {"Agent", "Bash", "Edit", "Read", "Write"}


def tool_uses(message: Body) -> list[Body]:
    return [block for block in message["content"] if isinstance(block, dict) and block["type"] == "tool_use"]


def test_it_says_nothing_of_a_machine_or_of_a_person_and_has_no_long_text_of_others() -> None:
    text = CLAUDE_CODE.read_text(encoding="utf-8")
    for private in ("/tmp", "/home", "/root", "/Users", "Linux", "localhost", "@"):
        assert private not in text
    assert all(id.startswith("00000000-") for id in re.findall(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}", text))
    assert set(re.findall(r"\b[0-9a-f]{32,}\b", text)) == {"0" * 64}
    assert len(text) < 100_000


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "again.jsonl"
    file.write_text(written(SESSION), encoding="utf-8")
    assert read(file) == SESSION


@pytest.mark.parametrize("letters", [0, 1, 10, 5000])
def test_filler_has_the_length_that_is_asked_for(letters: int) -> None:
    assert len(filler(7, letters)) == letters
    assert filler(7, letters) == filler(7, letters)


def test_what_is_not_ours_is_replaced_by_the_same_wherever_it_is() -> None:
    user = {"device_id": "d" * 64, "account_uuid": "somebody", "session_id": "665d08e7-dea5-44e2-a808-6e92a1475c58"}
    reminder = "in /tmp/x<system-reminder>Be kind.</system-reminder>"
    body: Body = {
        "system": [{"type": "text", "text": f"{BILLING} cc_version=1"}, {"type": "text", "text": "Rules of /tmp/x."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "A reminder."}, {"type": "text", "text": "Hi"}]},
            {"role": "system", "content": "Rules of /tmp/x."},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": reminder}]},
        ],
        "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"properties": {"a": {"description": "Reads."}}}}],
        "metadata": {"user_id": msgspec.json.encode(user).decode()},
    }
    found = Scrubber({"/tmp/x": "/garden"}, {"Hi"}).scrubbed(body)
    rules, reads = place(1, 16), place(4, 6)
    assert [block["text"] for block in found["system"]] == [f"{BILLING} cc_version=1", rules]
    first, system, assistant, result = (message["content"] for message in found["messages"])
    assert [block["text"] for block in first] == [place(2, 11), "Hi"]
    assert system == rules
    assert assistant == [{"type": "thinking", "thinking": "Hm.", "signature": "signature 1"}]
    assert result[0]["content"] == f"in /garden<system-reminder>{place(3, 8)}</system-reminder>"
    assert found["tools"] == [
        {"name": "Read", "description": reads, "input_schema": {"properties": {"a": {"description": reads}}}}
    ]
    known = msgspec.json.decode(found["metadata"]["user_id"])
    assert known == {"device_id": "0" * 64, "account_uuid": "", "session_id": "00000000-0000-0000-0000-000000000001"}
