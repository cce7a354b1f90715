"""Probes of tools: whether the model sees them, calls are parsed, and choices are enforced."""

from typing import Any

from antiphon.core.knowledge import template_demands as demands
from antiphon.core.knowledge.template_demands import REMEDIES
from antiphon.engines.probes import templates
from antiphon.engines.probes.client import Answer, ProbeClient, Rejection
from antiphon.engines.probes.findings import ASKED_WITHOUT_THINKING, Observation, Verdict
from antiphon.engines.probes.questions import FIRST, SECOND, STRICT_TOOLS, TOOLS, TWO_CALLS, begins_as_schema, follows_schema

PARSED_HERE = "sends tools with the choice none, if the model sees them so, and finds the calls in what the model writes"
IN_MESSAGES = REMEDIES[demands.TOOLS]
REQUIRED_HERE = "constrains the answer to a call if the engine constrains JSON, and asks for one otherwise, twice"
CHECKED = "checks and repairs the arguments, and asks for the call once more"
ONE_BY_ONE = "forwards the calls as they come; a model that makes one at a time makes the next in its next turn"

# Enough tokens to see whether a call begins, and for the arguments of one of the tools.
CALL_START_TOKENS, CALL_TOKENS = 64, 128
THOUGHT_TOO_LONG = f"a call came with thinking off; with thinking, none came within {CALL_START_TOKENS} tokens"
# So many characters of text are an answer and not the start of a call.
SHORTEST_TEXT = 16


async def tools(client: ProbeClient) -> Observation:
    """Whether the model sees them. The prompt is the best source, then what the engine reports, then the length of the prompt,
    then what the model knows of them. The first two generate nothing."""
    fact = "shows_tools"
    if (reported := await _reported(client)) is not None:
        detail = f"the engine says that this model sees {'them' if reported else 'none'}"
        return Observation(Verdict.WORKS if reported else Verdict.DOES_NOT, detail, IN_MESSAGES, {fact: reported})
    if not (fields := await templates.tool_fields(client)):
        rejection = await client.rejection(tools=TOOLS, tool_choice="auto")
        return Observation(Verdict.DOES_NOT, str(rejection), IN_MESSAGES, {fact: False})
    shown, detail = await templates.shows_tools(client, fields)
    if shown is None:
        return Observation(Verdict.UNKNOWN, detail)
    return Observation(Verdict.WORKS if shown else Verdict.DOES_NOT, detail, IN_MESSAGES, {fact: shown})


async def tool_calls(client: ProbeClient) -> Observation:
    """Whether the engine accepts tools that may be called, and so finds the calls in what its model writes."""
    fact = "reads_calls"
    if (reported := await _reported(client)) is not None:
        detail = f"the engine says that this model makes {'them' if reported else 'none'}"
        return Observation(Verdict.WORKS if reported else Verdict.DOES_NOT, detail, IN_MESSAGES, {fact: reported})
    if (rejection := await client.rejection(tools=TOOLS, tool_choice="auto")) is not None:
        return Observation(Verdict.DOES_NOT, str(rejection), PARSED_HERE, {fact: False})
    return Observation(Verdict.WORKS, "accepted", facts={fact: True})


async def _reported(client: ProbeClient) -> bool | None:
    """What the engine says of tools. None: it says nothing, or shows its prompts, which say more."""
    reported = await client.reported(client.dialect.reported_tools)
    return None if reported is None or await client.renders() else reported


async def parallel_calls(client: ProbeClient) -> Observation:
    """Whether the template takes them; and if only the model can show that, whether it makes them."""
    if (observation := await templates.parallel_history(client)) is not None:
        return observation
    reported = await client.reported(client.dialect.reported_parallel_calls)
    if reported is not None:
        detail = "the template has them" if reported else "the template has none"
        return Observation(Verdict.WORKS if reported else Verdict.DOES_NOT, detail, ONE_BY_ONE)
    answer = await client.ask(messages=TWO_CALLS, tools=TOOLS, tool_choice="auto", tokens=2 * CALL_TOKENS)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), ONE_BY_ONE)
    if len(answer.calls) > 1:
        return Observation(Verdict.WORKS, f"{len(answer.calls)} calls came in one answer")
    return Observation(Verdict.UNKNOWN, f"{len(answer.calls) or 'no'} call came where two were asked for: it may be the model")


async def required_choice(client: ProbeClient) -> Observation:
    return await _enforced(client, "required", (FIRST, SECOND), "enforces_required")


async def named_choice(client: ProbeClient) -> Observation:
    return await _enforced(client, {"type": "function", "function": {"name": SECOND}}, (SECOND,), "enforces_named")


def _shows_choice(answer: Answer) -> bool:
    return bool(answer.calls) or len(answer.text.strip()) >= SHORTEST_TEXT


async def _enforced(client: ProbeClient, choice: Any, names: tuple[str, ...], fact: str) -> Observation:
    """Nothing in the prompt asks for a tool, so a call was enforced."""
    request: dict[str, Any] = {"tools": TOOLS, "tokens": CALL_START_TOKENS, "stop_when": _shows_choice}
    no_thinking = await client.without_thinking()
    fields = {**request, **no_thinking}
    answer = await client.ask(tool_choice=choice, **fields)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), REQUIRED_HERE, {fact: False})
    if any(call.name not in names for call in answer.calls):
        return Observation(
            Verdict.DOES_NOT, f"{answer.calls[0].name} was called, which was not the choice", REQUIRED_HERE, {fact: False}
        )
    if answer.calls:
        with_auto_choice = await client.ask(tool_choice="auto", **fields)
        if isinstance(with_auto_choice, Answer) and with_auto_choice.calls:
            return Observation(Verdict.UNKNOWN, "a call came, but this model also calls when it need not")
        if no_thinking and await client.only_thinks(tool_choice=choice, **request):
            return Observation(Verdict.PARTLY, THOUGHT_TOO_LONG, ASKED_WITHOUT_THINKING, {fact: True})
        return Observation(Verdict.WORKS, "a call came where nothing asked for one", facts={fact: True})
    if answer.text.strip():
        return Observation(Verdict.DOES_NOT, "text came instead of a call", REQUIRED_HERE, {fact: False})
    return Observation(Verdict.UNKNOWN, "neither a call nor text came within a few tokens")


async def strict_arguments(client: ProbeClient) -> Observation:
    answer = await client.ask(tools=STRICT_TOOLS, tool_choice="required", tokens=CALL_TOKENS, **await client.without_thinking())
    if isinstance(answer, Rejection) or not answer.calls:
        return Observation(Verdict.UNKNOWN, "no call came that could be checked", CHECKED)
    arguments = answer.calls[0].arguments
    if follows_schema(arguments):
        return Observation(Verdict.WORKS, "the arguments followed the schema", facts={"constrains_calls": True})
    if answer.finish_reason == "length" and begins_as_schema(arguments):
        return Observation(Verdict.UNKNOWN, "the arguments were cut off", CHECKED)
    return Observation(Verdict.DOES_NOT, "the arguments did not follow the schema", CHECKED, {"constrains_calls": False})
