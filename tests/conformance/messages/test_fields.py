"""Every field of a request, and the members of those that are objects: what the engine gets, what the client is told."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from support.client_conversations import GREETING, THOUGHT
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, standing_before
from support.messages import HI, PATH, VERSION, Body, body, create, refused

LOOK = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
SAID = {"role": "user", "content": "Hi"}


@dataclass(frozen=True)
class Case:
    # Fields of the request.
    given: Body
    # Members of the chat request.
    sent: Body = field(default_factory=dict)
    # Words of the notice.
    notice: str = ""


def left_out(name: str, value: Any) -> Case:
    field, _, member = name.partition(".")
    given = {field: {**({"type": "adaptive"} if field == "thinking" else {}), member: value}} if member else {field: value}
    return Case(given, notice=f"field {name} was left out: it has no effect here")


def thinking(**members: Any) -> Case:
    return Case({"thinking": {"type": "enabled", "budget_tokens": 1024, **members}}, {"reasoning_effort": "medium"})


CASES: dict[str, Case] = {
    "model": Case({"model": "mock"}, {"model": "mock"}),
    "messages": Case({"messages": HI}, {"messages": [SAID]}),
    "max_tokens": Case({"max_tokens": 64}, {"max_tokens": 64}),
    "system": Case(
        {"system": [{"type": "text", "text": "Be kind."}]}, {"messages": [{"role": "system", "content": "Be kind."}, SAID]}
    ),
    "temperature": Case({"temperature": 0.5}, {"temperature": 0.5}),
    "top_p": Case({"top_p": 0.9}, {"top_p": 0.9}),
    "top_k": Case({"top_k": 5}, notice="field top_k was left out: this engine does not take it"),
    "tools": Case({"tools": [LOOK]}, {"tool_choice": "auto"}),
    "tool_choice": Case(
        {"tools": [LOOK], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"parallel_tool_calls": False}
    ),
    "thinking": thinking(),
    "thinking.type": thinking(type="adaptive"),
    "thinking.budget_tokens": thinking(),
    "thinking.block_binding": left_out("thinking.block_binding", {"prefix_mismatch_behavior": "error"}),
    "output_config": Case({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
    "output_config.task_budget": left_out("output_config.task_budget", {"type": "tokens", "total": 1000}),
    "metadata": Case({"metadata": {"user_id": "ada"}}),
    "cache_control": Case({"cache_control": {"type": "ephemeral"}}, {"messages": [SAID]}),
    "service_tier": left_out("service_tier", "auto"),
    "speed": left_out("speed", "fast"),
    "inference_geo": left_out("inference_geo", "eu"),
    "billing_policy": left_out("billing_policy", {"type": "billing_policy"}),
    "diagnostics": left_out("diagnostics", {"previous_message_id": None}),
    "fallbacks": left_out("fallbacks", [{"model": "other"}]),
    "fallback_credit_token": left_out("fallback_credit_token", "token"),
    "thread": Case({"thread": {"type": "create"}}, notice="thread: the conversation is not kept here"),
    "container.skills": Case(
        {"container": {"skills": [{"type": "custom", "skill_id": "s"}]}},
        notice="container.skills were left out: there are no skills",
    ),
    "context_management": Case({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}),
    "betas": Case({}),
    "messages.clear_at": Case(
        {
            "messages": [
                *HI,
                {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"},
                {"role": "user", "content": "So?"},
            ]
        },
        {"messages": [SAID, {"role": "user", "content": "So?"}]},
    ),
    "messages.output_config": Case(
        {
            "messages": [*HI, {"role": "system", "output_config": {"effort": "low"}}],
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
        },
        {"reasoning_effort": "low", "messages": [SAID]},
    ),
}


async def test_a_field_is_sent_or_its_client_is_told(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    headers = VERSION | {"anthropic-beta": "mid-conversation-system-2026-04-07"}
    for name, case in CASES.items():
        status, message = await gateway.post(body(**case.given), PATH, headers=headers)
        assert (status, message["content"]) == (200, [{"type": "text", "text": "Hello world"}]), name
        assert case.sent.items() <= engine.last.items(), name
        assert case.notice in gateway.notice if case.notice else not gateway.notice, name


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", "sglang", "lmdeploy"])
async def test_an_engine_that_knows_top_k_gets_it(kind: str) -> None:
    async with standing_before(kind) as (gateway, engine):
        await create(gateway, top_k=5)
        assert (engine.last["top_k"], gateway.notice) == (5, "")


@pytest.mark.parametrize(
    ("header", "field"), [("anthropic-user-profile-id", "user_profile_id"), ("anthropic-workspace-id", "workspace_id")]
)
async def test_a_header_about_an_account_has_a_notice(gateway: GatewayUnderTest, header: str, field: str) -> None:
    status, _ = await gateway.post(body(), PATH, headers=VERSION | {header: "x"})
    assert (status, gateway.notice) == (200, f"field {header} was left out: it has no effect here")


@pytest.mark.parametrize("place", ["output_config", "output_format"])
async def test_an_answer_follows_its_schema(gateway: GatewayUnderTest, engine: MockEngine, place: str) -> None:
    engine.otherwise = lambda body: text('{"city": "Rome"}')
    format = {"type": "json_schema", "schema": SCHEMA}
    given = {"format": format} if place == "output_config" else format
    message = await create(gateway, **{place: given})
    assert message["content"][0]["text"] == '{"city": "Rome"}'
    assert engine.last["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("display", ["summarized", "updates", "omitted"])
async def test_a_thought_is_shown_as_it_is_asked_for(gateway: GatewayUnderTest, engine: MockEngine, display: str) -> None:
    engine.will(GREETING)
    message = await create(gateway, thinking={"type": "adaptive", "display": display})
    assert message["content"][0]["thinking"] == ("" if display == "omitted" else THOUGHT)
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] > 0


async def test_the_prompt_alone_can_be_read(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("H", finish="length"))
    message = await create(gateway, max_tokens=0)
    assert (message["content"], message["stop_reason"], engine.last["max_tokens"]) == ([], "max_tokens", 1)


async def test_a_thread_is_sent_again(gateway: GatewayUnderTest) -> None:
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    status, answered = await gateway.post(body(thread=thread), PATH, headers=VERSION)
    assert (status, answered["error"]["details"]) == (404, {"error_code": "thread_not_found"})


# ---- the choice of tools -----------------------------------------------------------------------------------------------

CALLED = answer(call("look", "{}"), finish="tool_calls")
CHOICES: dict[str, tuple[Body, Any]] = {
    "auto": ({"type": "auto"}, "auto"),
    "any": ({"type": "any"}, "required"),
    "tool": ({"type": "tool", "name": "look"}, "required"),
    "none": ({"type": "none"}, None),
}


async def test_a_choice_of_tools_is_kept(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for kind, (choice, sent) in CHOICES.items():
        engine.will(text("Hello") if kind == "none" else CALLED)
        message = await create(gateway, tools=[LOOK], tool_choice=choice)
        assert engine.last.get("tool_choice") == sent, kind
        assert message["content"][0]["type"] == ("text" if kind == "none" else "tool_use")


# ---- what is refused ---------------------------------------------------------------------------------------------------


REFUSED: dict[str, Body] = {
    "compaction": {"compaction": {"type": "summarize"}, "context_management": {"edits": []}},
    "context_management.edits[0].type": {"context_management": {"edits": [{"type": "shorten"}]}},
    "messages[0].content": {"messages": [{"role": "user"}]},
    "thinking.type": {"thinking": {"type": "deep"}},
    "container": {"container": 5},
}


async def test_what_cannot_be_read_is_a_400(gateway: GatewayUnderTest) -> None:
    for name, fields in REFUSED.items():
        assert f"`{name}`" in await refused(gateway, **fields)
