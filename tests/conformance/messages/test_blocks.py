"""Every block of a request, and every member of one: what the engine gets of it, or what the client is told."""

import base64
from typing import Any

import aiohttp
import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest
from support.messages import HI, VERSION, Body, create, refused
from support.pdfs import make_pdf

IMAGE = b"\x89PNG\r\n\x1a\n"
PNG = base64.b64encode(IMAGE).decode()
PDF = base64.b64encode(make_pdf("Once.")).decode()
CACHED = {"cache_control": {"type": "ephemeral"}}
CALL: Body = {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "it"}, "caller": {"type": "direct"}}
SENT_CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at":"it"}'}}
RESULT = {"type": "tool_result", "tool_use_id": "a"}
FOREIGN = "were left out: they mean nothing here"


def image_part(image: bytes) -> Body:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(image).decode()}"}}


def user(*blocks: Body) -> list[Body]:
    return [{"role": "user", "content": [{**block, **CACHED} for block in blocks]}]


def written(*blocks: Body, then: str = "So?") -> list[Body]:
    """By the model, between two questions."""
    return [*HI, {"role": "assistant", "content": list(blocks)}, {"role": "user", "content": then}]


def called(result: Body) -> list[Body]:
    return [*HI, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [{**RESULT, **result}]}]


def document(source: Body, **members: Any) -> Body:
    return {"type": "document", "source": source, **members}


TEXT = {"type": "text", "media_type": "text/plain", "data": "Once."}
INSIDE = {"type": "content", "content": [{"type": "text", "text": "Once."}]}
# A name → the messages, and the last of those that the engine gets.
READ: dict[str, tuple[list[Body], Any]] = {
    "text": (user({"type": "text", "text": "Once."}), "Once."),
    "text.citations": (written({"type": "text", "text": "Once.", "citations": []}), "So?"),
    "image base64": (
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}),
        [image_part(IMAGE)],
    ),
    "image url": (
        user({"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}),
        [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}],
    ),
    "document text": (user(document(TEXT, title="A tale", context="It is old.")), "A tale\nIt is old.\nOnce."),
    "document content": (user(document(INSIDE)), "Once."),
    "document base64": (
        user(document({"type": "base64", "media_type": "application/pdf", "data": PDF}, title="a.pdf")),
        '<file name="a.pdf">\n[page 1]\nOnce.\n</file>',
    ),
    "search_result": (
        user({"type": "search_result", "title": "T", "source": "s", "content": [{"type": "text", "text": "Once."}]}),
        "T (s)\nOnce.",
    ),
    "tool_result": (called({"content": "red"}), "red"),
    "tool_result.is_error": (called({"content": "no light", "is_error": True}), "Error: no light"),
    "tool_reference": (called({"content": [{"type": "tool_reference", "tool_name": "Fetch"}]}), "Fetch"),
    "browser_state": (
        called(
            {
                "content": [
                    {
                        "type": "browser_state",
                        "tabs": [
                            {"tab_id": "t1", "title": "Start", "url": "https://a.example", "active": True},
                            {"tab_id": "t2", "title": "", "url": ""},
                        ],
                        "state_changes": [
                            {"type": "tab_opened", "tab_id": "t2"},
                            {"type": "download_completed", "download_id": "d", "url": "https://a.example/b", "size_bytes": 5},
                        ],
                    }
                ],
                "toolset_name": "browser",
            }
        ),
        "Open tabs:\n- t1 (active): Start https://a.example\n- t2:\n"
        "tab_opened: t2\ndownload_completed: d https://a.example/b 5 bytes",
    ),
}


async def test_the_blocks_of_a_user_are_read(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for name, (messages, sent) in READ.items():
        await create(gateway, messages)
        content = engine.last["messages"][-1]["content"]
        plain = isinstance(content, list) and isinstance(sent, str)
        assert ("\n".join(part["text"] for part in content) if plain else content) == sent, name
        assert not gateway.notice, name


SEARCHED: list[Body] = [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "Rome"}, "caller": {"type": "direct"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "caller": {"type": "direct"},
        "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": ""}],
    },
]
FETCHED: list[Body] = [
    {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {"url": "https://a.example"}},
    {
        "type": "web_fetch_tool_result",
        "tool_use_id": "s",
        "caller": {"type": "direct"},
        "content": {"type": "web_fetch_result", "url": "https://a.example", "content": document(TEXT)},
    },
]
RAN: list[Body] = [
    {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "print(1)"}},
    {
        "type": "code_execution_tool_result",
        "tool_use_id": "s",
        "content": {"type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0, "content": []},
    },
]
MCP: list[Body] = [
    {"type": "mcp_tool_use", "id": "m", "name": "echo", "server_name": "s", "input": {"a": 1}},
    {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": [{"type": "text", "text": "one"}]},
]
# The blocks of an assistant → the calls and the results that the engine gets.
WRITTEN: dict[str, tuple[list[Body], list[str], list[str]]] = {
    "tool_use": ([CALL], ["look"], []),
    "tool_use.toolset_name": ([{**CALL, "toolset_name": "computer"}], ["computer__look"], []),
    "web_search": (SEARCHED, ["web_search"], ["https://a.example"]),
    "web_fetch": (FETCHED, ["open_page"], ["not shown again"]),
    "code_execution": (RAN, ["python"], ["1"]),
    "mcp": (MCP, ["s__echo"], ["one"]),
}


async def test_a_call_of_the_model_is_shown_to_it_again(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for name, (blocks, names, results) in WRITTEN.items():
        messages = written(*blocks)
        if not results:
            messages[-1]["content"] = [{**RESULT, "content": "red"}]
        await create(gateway, messages)
        sent = engine.last["messages"]
        assert [call["function"]["name"] for message in sent for call in message.get("tool_calls", ())] == names, name
        shown = [message["content"] for message in sent if message["role"] == "tool"]
        assert all(word in told for word, told in zip(results, shown, strict=bool(results))), name


async def test_thoughts_are_restored(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    await create(gateway, written(thought, {"type": "text", "text": "Hello."}), thinking={"type": "adaptive"})
    assert engine.last["messages"][1]["content"] == "<think>\nHm.\n</think>\n\nHello."
    foreign = {"type": "redacted_thinking", "data": "of another server"}
    await create(gateway, written(foreign, {"type": "text", "text": "Hello."}))
    assert gateway.notice == "sealed reasoning of another server was ignored: it cannot be opened here"


@pytest.mark.parametrize("kind", ["image", "document"])
async def test_an_uploaded_file_is_read(gateway: GatewayUnderTest, engine: MockEngine, kind: str) -> None:
    content = IMAGE if kind == "image" else b"Once."
    id = await upload(gateway, content, "a.png" if kind == "image" else "a.txt")
    await create(gateway, user({"type": kind, "source": {"type": "file", "file_id": id}}))
    expected: Any = '<file name="a.txt">\nOnce.\n</file>' if kind == "document" else [image_part(IMAGE)]
    assert engine.last["messages"][-1]["content"] == expected


async def upload(gateway: GatewayUnderTest, content: bytes, name: str) -> str:
    form = aiohttp.FormData()
    form.add_field("file", content, filename=name)
    async with gateway.client.post(f"{gateway.url}/v1/files", data=form, headers=VERSION) as answered:
        return str((await answered.json())["id"])


async def test_a_file_at_an_address_is_refused(gateway: GatewayUnderTest) -> None:
    messages = user(document({"type": "url", "url": "https://a.example/b.pdf"}))
    assert "`messages[0].content[0].source.url` cannot be read" in await refused(gateway, messages)


# ---- what has no effect ------------------------------------------------------------------------------------------------

LEFT_OUT: dict[str, Body] = {
    "advisor_tool_result": {"type": "advisor_tool_result", "tool_use_id": "s", "content": {}},
    "bash_code_execution_tool_result": {"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {}},
    "text_editor_code_execution_tool_result": {
        "type": "text_editor_code_execution_tool_result",
        "tool_use_id": "s",
        "content": {},
    },
    "tool_search_tool_result": {"type": "tool_search_tool_result", "tool_use_id": "s", "content": {}},
    "fallback": {
        "type": "fallback",
        "from": {"model": "a"},
        "to": {"model": "b"},
        "trigger": {"type": "refusal", "category": None},
    },
}


async def test_a_block_of_another_server_is_left_out(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for kind, block in LEFT_OUT.items():
        await create(gateway, written(block, {"type": "text", "text": "Hello."}))
        assert [message["content"] for message in engine.last["messages"]] == ["Hi", "Hello.", "So?"]
        assert gateway.notice == f"blocks of type {kind} {FOREIGN}"


async def test_a_member_that_changes_nothing_is_named(gateway: GatewayUnderTest) -> None:
    image = {
        "type": "image",
        "source": {"type": "url", "url": "https://a.example/b.png"},
        "transformations": {"oversized_image": "error"},
    }
    await create(gateway, user(image, {"type": "text", "text": "So?", "colour": "red"}))
    assert gateway.notice == (
        "transformations.oversized_image of blocks of type image has no effect here; "
        "colour of blocks of type text has no effect here"
    )
    await create(gateway, user({**image, "transformations": {"oversized_image": "downsize"}}))
    assert not gateway.notice


# ---- tools that a message adds -----------------------------------------------------------------------------------------

LOOK = {"name": "look", "input_schema": {"type": "object"}}
LATER = {"name": "later", "input_schema": {"type": "object"}, "defer_loading": True}


@pytest.mark.parametrize(
    ("kind", "tool", "names"),
    [
        ("tool_addition", {"type": "tool_reference", "name": "later"}, ["look", "later"]),
        ("tool_removal", {"type": "tool_reference", "name": "look"}, []),
    ],
)
async def test_a_message_changes_the_tools(
    gateway: GatewayUnderTest, engine: MockEngine, kind: str, tool: Body, names: list[str]
) -> None:
    await create(gateway, [*HI, {"role": "system", "content": [{"type": kind, "tool": tool}]}], tools=[LOOK, LATER])
    assert [each["function"]["name"] for each in engine.last.get("tools", ())] == names
