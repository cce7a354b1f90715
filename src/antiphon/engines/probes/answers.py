"""Probes of answers: constrained JSON, reasoning, usage, cached tokens, logprobs."""

from collections.abc import Set
from typing import Any

from antiphon.engines.probes.client import Answer, ProbeClient, Rejection
from antiphon.engines.probes.findings import Observation, Verdict
from antiphon.engines.probes.questions import (
    JSON_FORMAT,
    LONG_PROMPT,
    ODD_WORDS,
    OPENED_THOUGHT,
    PUZZLE,
    TOOLS,
    WHOLE_THOUGHT,
    begins_as_schema,
    follows_schema,
)

REASONING_MEMBERS = ("reasoning_content", "reasoning", "thinking")

SHOWN_AND_CHECKED = "shows the schema to the model, checks and repairs the answer, and asks once more"
FOUND_IN_TEXT = "finds the reasoning in the text, and makes a reasoning item of it"
REMEMBERED = "remembers that answers of this model begin inside a thought"
LEFT_OUT = "leaves logprobs out when tools are offered, with a notice"
PASSED_ON = "asks for them when a client does, and forwards what the engine answers"
MISSING = "asks for them all the same when a client does, and adds a notice that none came"
NOT_COUNTED = "reports 0 cached tokens; it keeps each prompt a prefix of the next one, so that a cache works all the same"
ESTIMATED = "estimates usage, by the engine's tokenizer or by length"

# The object takes about thirty tokens, and more with a lot of white space.
OBJECT_TOKENS = 96
THOUGHT_TOKENS = 96


# ---- JSON ------------------------------------------------------------------------------------------------------------


async def json_schema(client: ProbeClient) -> Observation:
    return await _constrained(client, {"constrains_json"}, {"takes_response_format"})


async def json_schema_with_tools(client: ProbeClient) -> Observation:
    """Some engines turn tools and schemas into a grammar, and reject a request that would need two."""
    with_tools = await client.ask(tools=TOOLS, tool_choice="auto")
    if isinstance(with_tools, Rejection):
        return Observation(Verdict.UNKNOWN, "tools alone are rejected")
    return await _constrained(client, {"constrains_json_with_tools"}, tools=TOOLS, tool_choice="auto")


async def _constrained(
    client: ProbeClient, constrained: set[str], accepted: Set[str] = frozenset(), **fields: Any
) -> Observation:
    """Nothing in the prompt asks for JSON, so an answer in JSON was constrained.

    `constrained` and `accepted` name the facts that depend on it, and on the acceptance of the request.
    """
    fields |= await client.without_thinking()
    answer = await client.ask(response_format=JSON_FORMAT, tokens=OBJECT_TOKENS, stop_when=_leaves_schema, **fields)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), SHOWN_AND_CHECKED, dict.fromkeys(constrained | accepted, False))
    text = answer.text
    # No model writes an odd word unless it is constrained to, so the rest may be cut off.
    if follows_schema(text) or (begins_as_schema(text) and any(word in text for word in ODD_WORDS)):
        return Observation(Verdict.WORKS, "the answer followed the schema", facts=dict.fromkeys(constrained, True))
    if answer.calls:
        return Observation(Verdict.UNKNOWN, "a call came instead of an answer")
    if begins_as_schema(text) and (answer.finish_reason == "length" or not text.strip()):
        return Observation(Verdict.UNKNOWN, "no answer came within a few tokens")
    return Observation(
        Verdict.DOES_NOT, "the answer did not follow the schema", SHOWN_AND_CHECKED, dict.fromkeys(constrained, False)
    )


def _leaves_schema(answer: Answer) -> bool:
    return not begins_as_schema(answer.text)


# ---- reasoning -------------------------------------------------------------------------------------------------------


async def reasoning(client: ProbeClient) -> Observation:
    answer = await _think(client)
    if isinstance(answer, Rejection):
        return Observation(Verdict.UNKNOWN, str(answer))
    shape = _shape(answer)
    if shape is None:
        reported = await client.reported(client.dialect.reported_reasoning)
        detail = "the engine says that this model does not think" if reported is False else "no reasoning was seen"
        return Observation(Verdict.UNKNOWN, detail)
    by_default = await _think(client, **dict.fromkeys(client.dialect.extra)) if client.dialect.extra else answer
    default_shape = _shape(by_default) if isinstance(by_default, Answer) else None
    detail = f"comes {shape}"
    if default_shape not in (None, shape):
        detail += f"; by default it would come {default_shape}"
    if answer.opens_thought:
        return Observation(Verdict.PARTLY, detail, REMEMBERED, {"opens_thought": True})
    if not answer.members & {*REASONING_MEMBERS}:
        return Observation(Verdict.PARTLY, detail, FOUND_IN_TEXT, {"opens_thought": False})
    return Observation(Verdict.WORKS, detail, facts={"opens_thought": False})


async def _think(client: ProbeClient, **fields: Any) -> Answer | Rejection:
    """A grammar makes any model think; without one the model is asked to, and may not."""
    member = client.dialect.grammar_member
    if member is None:
        return await client.ask(messages=PUZZLE, tokens=THOUGHT_TOKENS, **fields)
    prompt = await client.rendered_prompt()
    is_opened = prompt is not None and prompt.rstrip().endswith("<think>")
    fields[member] = OPENED_THOUGHT if is_opened else WHOLE_THOUGHT
    return await client.ask(tokens=THOUGHT_TOKENS, **fields)


def _shape(answer: Answer) -> str | None:
    field = next((member for member in REASONING_MEMBERS if member in answer.members), None)
    if field is not None:
        return f"in {field}" + (", and again in the text" if "</think>" in answer.raw_text else "")
    if answer.opens_thought:
        return "in the text, ended by </think> but never opened: the template opens it"
    return "in the text, between <think> and </think>" if answer.reasoning else None


# ---- usage and logprobs ----------------------------------------------------------------------------------------------


async def usage(client: ProbeClient) -> Observation:
    answer = await client.baseline()
    if answer.usage is None:
        return Observation(Verdict.DOES_NOT, "none came", ESTIMATED, {"reports_usage": False})
    return Observation(Verdict.WORKS, "it came with the end of the stream", facts={"reports_usage": True})


async def cached_tokens(client: ProbeClient) -> Observation:
    """The same long prompt twice: the second time it is in the cache of an engine that has one."""
    await client.ask(messages=LONG_PROMPT, tokens=1)
    answer = await client.ask(messages=LONG_PROMPT, tokens=2)
    if isinstance(answer, Rejection):
        return Observation(Verdict.UNKNOWN, str(answer))
    if answer.cached_tokens is None:
        return Observation(Verdict.DOES_NOT, "the usage does not have them", NOT_COUNTED)
    if not answer.cached_tokens:
        return Observation(Verdict.UNKNOWN, "the usage has them, but a prompt that was sent twice was not cached")
    return Observation(Verdict.WORKS, f"of a prompt that was sent twice, {answer.cached_tokens} tokens were cached")


async def logprobs(client: ProbeClient) -> Observation:
    request: dict[str, Any] = {"logprobs": True, "top_logprobs": 1, "tokens": 2}
    answer = await client.ask(**request)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), PASSED_ON)
    if not answer.logprobs and not answer.raw_text:
        return Observation(Verdict.UNKNOWN, "no text came that could have had them", PASSED_ON)
    if not answer.logprobs:
        return Observation(Verdict.DOES_NOT, "accepted, but none came", MISSING, {"returns_logprobs": False})
    came = {"returns_logprobs": True}
    tools: dict[str, Any] = {"tools": TOOLS, "tool_choice": "auto"}
    if isinstance(await client.ask(**tools), Rejection):
        return Observation(Verdict.WORKS, "they came", facts=came)
    both = await client.ask(**request, **tools)
    if isinstance(both, Rejection):
        facts = {**came, "takes_logprobs_with_tools": False}
        return Observation(Verdict.PARTLY, f"they came; with tools {both}", LEFT_OUT, facts)
    facts = {**came, "takes_logprobs_with_tools": True}
    return Observation(Verdict.WORKS, "they came, and are accepted with tools", facts=facts)
