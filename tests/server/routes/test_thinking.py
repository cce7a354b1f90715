"""A thought that takes all tokens of an answer, and answers that an engine takes for a thought."""

from typing import Any

import msgspec
import pytest
from support.engine import Refusal, answer, call, chunk, text
from support.gateway import standing_before

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]
SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"], "additionalProperties": False}
FORMAT = {"format": {"type": "json_schema", "name": "trip", "schema": SCHEMA}}
THOUGHT = answer(chunk({"reasoning_content": "Well, "}), chunk({"reasoning_content": "let me see"}), finish="length")
CALL = answer(call("get_weather", "{}"), finish="tool_calls")
ENVELOPE = text('{"name": "get_weather", ', '"arguments": {}}')
NOTICE = "the model used up max_output_tokens while it was thinking: it was asked again without thinking"


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("engine_name", "second"), [("vllm", CALL), ("llamacpp", ENVELOPE)])
async def test_a_required_call_is_asked_for_again_without_thinking(engine_name: str, second: bytes, streamed: bool) -> None:
    async with standing_before(engine_name, THOUGHT, second) as (gateway, engine):
        request: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required", "max_output_tokens": 8}
        response = (await gateway.stream(**request))[-1]["response"] if streamed else await gateway.create(**request)
        assert response["status"] == "completed"
        assert kinds(response) == ["reasoning", "function_call"]
        # It is the same request, so that the prefix cache is of use, with as many tokens as before.
        first, again = engine.requests
        assert again["messages"] == first["messages"]
        assert again["max_completion_tokens"] == first["max_completion_tokens"] == 8
        assert "reasoning_effort" not in first
        assert again["reasoning_effort"] == "none"
        # The engine enforces the call as before, and was never asked to do without.
        assert again["tool_choice"] == ("required" if engine_name == "vllm" else "none")
        assert response["antiphon_notices"] == [NOTICE]
        assert response["usage"]["output_tokens"] == 10


async def test_every_name_that_templates_have_for_thinking_is_used() -> None:
    async with standing_before("vllm", THOUGHT, CALL) as (gateway, engine):
        await gateway.create(tools=TOOLS, tool_choice="required")
        assert engine.last["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}


async def test_a_thought_that_is_too_long_says_nothing_about_what_the_engine_enforces() -> None:
    async with standing_before("vllm", THOUGHT, CALL, CALL) as (gateway, engine):
        await gateway.create(tools=TOOLS, tool_choice="required")
        await gateway.create(tools=TOOLS, tool_choice="required")
        assert len(engine.requests) == 3
        assert engine.last["tool_choice"] == "required"
        assert "reasoning_effort" not in engine.last


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}], ids=["required", "named"])
async def test_a_thought_in_place_of_the_call_leaves_the_call_to_the_engine(choice: Any) -> None:
    """vLLM ends such an answer with finish_reason tool_calls."""
    thought = answer(chunk({"reasoning": "I shall call it."}), finish="tool_calls")
    async with standing_before("vllm", thought, CALL, CALL) as (gateway, engine):
        for _ in range(2):
            assert kinds(await gateway.create(tools=TOOLS, tool_choice=choice))[-1] == "function_call"
        first, second, third = engine.requests
        assert first["tool_choice"] == second["tool_choice"] == third["tool_choice"] != "auto"
        assert "response_format" not in second
        assert second["reasoning_effort"] == "none"


async def test_a_schema_is_asked_for_again_without_thinking() -> None:
    async with standing_before("vllm", THOUGHT, text('{"days": 3}')) as (gateway, engine):
        events = await gateway.stream(text=FORMAT, max_output_tokens=8)
        assert kinds(events[-1]["response"]) == ["reasoning", "message"]
        assert engine.requests[0]["response_format"] == engine.last["response_format"]


async def test_a_thought_that_the_engine_does_not_show_counts_too() -> None:
    async with standing_before("llamacpp", answer(finish="length"), ENVELOPE) as (gateway, _):
        response = await gateway.create(tools=TOOLS, tool_choice="required")
        assert kinds(response) == ["function_call"]


async def test_without_thinking_an_answer_may_still_be_asked_for_again() -> None:
    async with standing_before("llamacpp", THOUGHT, text("Hello."), text('{"days": 3}')) as (gateway, engine):
        response = await gateway.create(text=FORMAT, tools=TOOLS)
        assert kinds(response) == ["reasoning", "message"]
        assert [request["tool_choice"] for request in engine.requests] == ["auto", "auto", "none"]
        assert ["grammar" in request for request in engine.requests] == [False, False, True]


async def test_it_is_asked_again_once() -> None:
    async with standing_before("vllm", THOUGHT, THOUGHT) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice="required")
        assert response["status"] == "incomplete"
        assert len(engine.requests) == 2


async def test_an_answer_that_nothing_is_required_of_stays_incomplete() -> None:
    async with standing_before("vllm", THOUGHT) as (gateway, engine):
        events = await gateway.stream(tools=TOOLS)
        response = events[-1]["response"]
        assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")
        assert len(engine.requests) == 1


@pytest.mark.parametrize("engine_name", ["vllm", "llamacpp"])
async def test_where_no_thinking_is_refused_the_least_effort_is_asked_for(engine_name: str) -> None:
    refusal = Refusal(400, "reasoning_effort none is not supported")
    async with standing_before(engine_name, THOUGHT, refusal, text('{"days": 3}')) as (gateway, engine):
        response = await gateway.create(text=FORMAT, reasoning={"effort": "high"})
        assert response["status"] == "completed"
        efforts = [request["reasoning_effort"] for request in engine.requests]
        assert efforts == ["high", "none", "minimal" if engine_name == "llamacpp" else "low"]


async def test_an_engine_that_cannot_stop_thinking_is_not_asked_again() -> None:
    async with standing_before("somebody", THOUGHT) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice="required")
        assert response["status"] == "incomplete"
        assert len(engine.requests) == 1


async def test_an_engine_that_does_not_know_the_fields_is_asked_without_them() -> None:
    unknown = Refusal(400, {"error": {"message": "Extra inputs are not permitted: chat_template_kwargs", "code": 400}})
    async with standing_before("vllm", THOUGHT, unknown, CALL) as (gateway, engine):
        assert kinds(await gateway.create(tools=TOOLS, tool_choice="required")) == ["reasoning", "function_call"]
        assert "chat_template_kwargs" not in engine.last


# ---- grammars --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["reasoning_content", "content"])
@pytest.mark.parametrize("before", ["", "\n", "Here are my thoughts:\n"])
async def test_an_answer_that_is_constrained_from_its_first_token_is_no_thought(member: str, before: str) -> None:
    """A template that leaves a thought open makes llama.cpp report the answer as one, and the prompt's last words with it."""
    pieces = [f'{before}{{"days"', ": ", "3}"]
    made = answer(*(chunk({member: piece}) for piece in pieces))
    async with standing_before("llamacpp", made, made) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constraint_member": "grammar"})
        events = await gateway.stream(text=FORMAT)
        (message,) = events[-1]["response"]["output"]
        assert msgspec.json.decode(message["content"][0]["text"]) == {"days": 3}
        assert len(engine.requests) == 1
        assert engine.last["grammar"].startswith("root ::= s0\n")
        assert "response_format" not in engine.last
        assert engine.last["dry_multiplier"] > 0


async def test_an_effort_that_a_grammar_leaves_no_room_for_is_noted() -> None:
    async with standing_before("llamacpp", text('{"days": 3}'), text("Hello.")) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constraint_member": "grammar"})
        response = await gateway.create(text=FORMAT, reasoning={"effort": "high"})
        assert engine.last["reasoning_effort"] == "none"
        assert response["antiphon_notices"] == [
            "reasoning effort high was left out: this engine constrains an answer without a thought"
        ]
        response = await gateway.create(reasoning={"effort": "high"})
        assert "antiphon_notices" not in response


async def test_a_call_is_constrained_by_a_grammar_beside_all_tools() -> None:
    made = answer(*(chunk({"reasoning_content": piece}) for piece in ('{"name": "get_weather", ', '"arguments": {}}')))
    async with standing_before("llamacpp", made) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        facts = {"constraint_member": "grammar", "constrains_json_with_tools": False}
        gateway.gateway.pool.engines[0].knowledge.learn("mock", facts)
        response = await gateway.create(tools=TOOLS, tool_choice="required")
        assert kinds(response) == ["function_call"]
        assert (len(engine.last["tools"]), engine.last["tool_choice"]) == (1, "none")


# ---- an engine's own parser ------------------------------------------------------------------------------------------

UNPARSED = chunk(
    error={
        "code": 500,
        "message": "The model produced output that does not match the expected peg-native format",
        "type": "server_error",
    }
)


async def test_a_schema_beside_tools_that_the_engine_fails_at_goes_without_them() -> None:
    """llama.cpp with DeepSeek's templates, in the middle of a 200."""
    async with standing_before("llamacpp", UNPARSED, ENVELOPE) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice="required")
        assert kinds(response) == ["function_call"]
        assert "response_format" in engine.last
        assert "tools" not in engine.last
        assert "get_weather" in engine.last["messages"][0]["content"]


async def test_a_parser_that_fails_is_switched_off_for_the_request() -> None:
    async with standing_before("llamacpp", UNPARSED, UNPARSED, text("Hello."), text("Hello.")) as (gateway, engine):
        response = await gateway.create(tools=TOOLS)
        assert kinds(response) == ["message"]
        assert [request["tool_choice"] for request in engine.requests] == ["auto", "none", "none"]
        assert [request["reasoning_format"] for request in engine.requests] == ["deepseek", "deepseek", "none"]
        # The next answer may be one that it can parse.
        await gateway.create(tools=TOOLS)
        assert engine.last["reasoning_format"] == "deepseek"


async def test_a_parser_that_fails_in_a_few_requests_in_a_row_stays_off() -> None:
    """It fails at the end of an answer: a model that never writes what it wants would cost several answers each time."""
    attempts = [UNPARSED, text("Hello.")]
    async with standing_before("llamacpp", *attempts * 2, text("Hello."), *attempts * 3) as (gateway, engine):
        for _ in range(6):
            await gateway.create()
        # The third one passed, so the counting began again.
        assert [request["reasoning_format"] for request in engine.requests] == [
            *["deepseek", "none"] * 2,
            "deepseek",
            *["deepseek", "none"] * 3,
        ]
        await gateway.create()
        assert engine.last["reasoning_format"] == "none"


async def test_a_parser_that_cannot_be_switched_off_stays_on() -> None:
    """gpt-oss: without the engine's parser, later answers would come with its marks."""
    attempts = [UNPARSED, text("Hello.")]
    async with standing_before("llamacpp", *attempts * 3, text("Hello.")) as (gateway, engine):
        (known,) = gateway.gateway.pool.engines
        await gateway.gateway.pool.ready_event.wait()
        known.knowledge.learn("mock", {"answer_prefix": "<|channel|>final<|message|>"})
        for _ in range(4):
            await gateway.create()
        assert engine.last["reasoning_format"] == "deepseek"


UNMARKED = Refusal(400, {"error": {"message": "Failed to initialize samplers: no mark", "code": 400}})


@pytest.mark.parametrize("refusals", [[UNPARSED] * 3, [UNMARKED]], ids=["in its answer", "at once"])
async def test_a_result_that_cannot_be_answered_is_followed_by_a_user_message(refusals: list[Any]) -> None:
    """If nothing else helps: all of the prompt changes, and is cached no more."""
    history = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "Rain."},
    ]
    async with standing_before("llamacpp", *refusals, text("It rains."), text("It rains.")) as (gateway, engine):
        assert kinds(await gateway.create(history, tools=TOOLS)) == ["message"]
        *before, last = engine.requests
        assert all(request["messages"] == before[0]["messages"] for request in before)
        assert last["messages"] == [*before[0]["messages"], {"role": "user", "content": "Go on."}]
        await gateway.create("Hi", tools=TOOLS)
        assert len(engine.requests) == len(refusals) + 2


async def test_a_parser_that_cannot_be_switched_off_gets_what_it_wants() -> None:
    """llama.cpp with the templates of gpt-oss and Functionary 3.2."""
    async with standing_before("llamacpp", UNPARSED, text("Hello {you}.")) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"answer_prefix": "all\n"})
        response = await gateway.create()
        assert response["output"][0]["content"][0]["text"] == "Hello {you}."
        assert engine.last["grammar"] == r'root ::= "all\n" [^\x00]*'


async def test_a_failure_after_text_was_shown_continues_in_another_message() -> None:
    shown = chunk({"role": "assistant", "content": "Once upon"}) + UNPARSED
    async with standing_before("llamacpp", shown, text("Hello.")) as (gateway, _):
        events = await gateway.stream()
        assert [item["content"][0]["text"] for item in events[-1]["response"]["output"]] == ["Once upon", "Hello."]


# ---- efforts ---------------------------------------------------------------------------------------------------------


async def test_an_effort_that_is_refused_is_sent_as_the_nearest_from_then_on() -> None:
    words = "{{- raise_exception('reasoning_effort error : ' + reasoning..."
    refused = Refusal(400, {"error": {"message": words, "code": 400}})
    async with standing_before("llamacpp", refused, refused, text("Hello."), text("Hello.")) as (gateway, engine):
        response = await gateway.create(reasoning={"effort": "low"})
        assert [request["reasoning_effort"] for request in engine.requests] == ["low", "minimal", "medium"]
        assert response["antiphon_notices"] == ["reasoning effort low was sent as medium"]
        await gateway.create(reasoning={"effort": "low"})
        assert len(engine.requests) == 4


async def test_without_any_effort_that_is_accepted_none_is_sent() -> None:
    refused = Refusal(400, {"error": {"message": "reasoning_effort is not supported", "code": 400}})
    async with standing_before("somebody", refused, refused, refused, text("Hello.")) as (gateway, engine):
        response = await gateway.create(reasoning={"effort": "high"})
        assert "reasoning_effort" not in engine.last
        assert response["antiphon_notices"] == ["reasoning effort high was left out: no effort is accepted for this model"]
