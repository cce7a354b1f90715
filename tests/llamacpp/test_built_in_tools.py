"""llama.cpp constrains the calls of built-in tools to their schemas, also where one member depends on another."""

from typing import Any

import aiohttp
import jsonschema_rs
import msgspec
import pytest

from antiphon.core.checks.constraints import functions_to_response_format
from antiphon.core.toolbox.request_tools import tools_to_box

ATTEMPTS = 12


async def calls_of(url: str, kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The arguments of the calls that random weights make under the constraint, and the schema."""
    ((_, tool),) = tools_to_box([{"type": kind}]).offered.functions.items()
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Go."}],
        "response_format": functions_to_response_format([tool.function]),
        "max_tokens": 2048,
        "temperature": 1.5,
    }
    made = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        for seed in range(ATTEMPTS):
            async with session.post(url + "/v1/chat/completions", json={**body, "seed": seed}) as answer:
                assert answer.status == 200, await answer.text()
                (choice,) = (await answer.json())["choices"]
            if choice["finish_reason"] == "stop":
                made.append((msgspec.json.decode(choice["message"]["content"])["arguments"], tool.function.parameters or {}))
    return made


@pytest.mark.parametrize("kind", ["apply_patch", "shell", "local_shell"])
async def test_random_weights_call_a_built_in_tool_by_its_schema(tiny: str, kind: str) -> None:
    made = await calls_of(tiny, kind)
    assert len(made) >= ATTEMPTS / 2
    for arguments, schema in made:
        jsonschema_rs.validate(schema, arguments)
        assert ("diff" in arguments) is (arguments.get("type") in ("create_file", "update_file"))
        assert arguments.get("commands", arguments.get("command", ["none"])), "there is at least one command"


async def test_random_weights_write_files_and_delete_them(tiny: str) -> None:
    assert {arguments["type"] == "delete_file" for arguments, _ in await calls_of(tiny, "apply_patch")} == {True, False}
