"""Required calls, schemas and efforts on real llama.cpp, with templates that make it treat them badly.

The weights are random: a thought never ends by itself, and what is not constrained is noise. So what passes here was enforced.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gateway import GatewayUnderTest, running_gateway
from support.llamacpp import running_llamacpp
from support.parser_templates import LIKE_DEEPSEEK, LIKE_FUNCTIONARY, LIKE_GPT_OSS, LIKE_KIMI
from support.templates import ALWAYS_THINKS, MAY_THINK, OWN_EFFORTS
from support.tiny_model import write_tiny_model

SEEDS = range(8)
TEMPLATES = {
    "always thinks": ALWAYS_THINKS,
    "may think": MAY_THINK,
    "DeepSeek V3.2": LIKE_DEEPSEEK,
    "Kimi K2": LIKE_KIMI,
    "gpt-oss": LIKE_GPT_OSS,
    "Functionary 3.2": LIKE_FUNCTIONARY,
}
TOOLS = [
    {
        "type": "function",
        "name": name,
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"count": {"type": "integer"}},
            "required": ["count"],
            "additionalProperties": False,
        },
    }
    for name in ("add", "subtract")
]
SCHEMA = {
    "type": "object",
    "properties": {"word": {"enum": ["quuxible"]}, "number": {"type": "integer"}},
    "required": ["word", "number"],
    "additionalProperties": False,
}
FORMAT = {"format": {"type": "json_schema", "name": "odd", "schema": SCHEMA, "strict": True}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@asynccontextmanager
async def behind_gateway(model: Path, template: str) -> AsyncIterator[GatewayUnderTest]:
    with running_llamacpp(model, template=template) as url:
        async with running_gateway(url, probe=True) as gateway:
            await gateway.probed()
            yield gateway


async def answered(gateway: GatewayUnderTest, **fields: Any) -> list[dict[str, Any]]:
    """The last item of each response, streamed and not."""
    made = []
    for seed in SEEDS:
        request = {"model": "tiny", "seed": seed, "max_output_tokens": 200, **fields}
        response = (await gateway.stream(**request))[-1]["response"] if seed % 2 else await gateway.create(**request)
        assert response["status"] == "completed", response
        made.append(response["output"][-1])
    return made


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
async def test_every_required_call_is_made(model: Path, template: str) -> None:
    async with behind_gateway(model, template) as gateway:
        for choice in ("required", {"type": "function", "name": "add"}):
            for item in await answered(gateway, tools=TOOLS, tool_choice=choice):
                assert item["name"] in ("add", "subtract") if choice == "required" else item["name"] == "add"
                assert msgspec.json.decode(item["arguments"]).keys() == {"count"}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
async def test_every_schema_is_followed(model: Path, template: str) -> None:
    async with behind_gateway(model, template) as gateway:
        for item in await answered(gateway, text=FORMAT):
            assert msgspec.json.decode(item["content"][0]["text"])["word"] == "quuxible"


@pytest.mark.parametrize("template", [LIKE_GPT_OSS, LIKE_FUNCTIONARY], ids=["gpt-oss", "Functionary 3.2"])
async def test_a_text_that_the_engine_cannot_parse_still_arrives(model: Path, template: str) -> None:
    async with behind_gateway(model, template) as gateway:
        for fields in ({}, {"tools": TOOLS}):
            response = await gateway.create(model="tiny", seed=1, max_output_tokens=32, **fields)
            assert response["output"][0]["content"][0]["text"]


async def test_every_effort_works_on_a_template_that_has_its_own(model: Path) -> None:
    with running_llamacpp(model, template=OWN_EFFORTS) as url:
        for probe in (True, False):
            async with running_gateway(url, probe=probe) as gateway:
                await gateway.probed()
                for effort in ("none", "low", "medium", "high", "xhigh"):
                    response = await gateway.create(model="tiny", max_output_tokens=4, reasoning={"effort": effort})
                    sent = {"medium": "low", "xhigh": "high"}.get(effort, effort)
                    notices = [] if sent == effort else [f"reasoning effort {effort} was sent as {sent}"]
                    assert response.get("antiphon_notices", []) == notices
