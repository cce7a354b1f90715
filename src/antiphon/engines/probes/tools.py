"""Probes of tools: whether the model sees them, calls are parsed, and choices are enforced."""

from typing import Any

from antiphon.engines.probes.client import Answer, ProbeClient, Rejection
from antiphon.engines.probes.findings import ASKED_WITHOUT_THINKING, Observation, Verdict
from antiphon.engines.probes.questions import (
    FIRST,
    LONG_TOOLS,
    MARK,
    SECOND,
    STRICT_TOOLS,
    TOOLS,
    TWO_CALLS,
    begins_as_schema,
    follows_schema,
)

PARSED_HERE = "sends the tools with the choice none, and finds the calls in what the model writes"
IN_MESSAGES = "writes the tools, calls and results into the messages, and finds the calls in what the model writes"
REQUIRED_HERE = "constrains the answer to a call if the engine constrains JSON, and asks for one otherwise, twice"
CHECKED = "checks and repairs the arguments, and asks for the call once more"
ONE_BY_ONE = "forwards the calls as they come; a model that makes one at a time makes the next in its next turn"

# Enough tokens to see whether a call begins, and for the arguments of one of the tools.
CALL_START_TOKENS, CALL_TOKENS = 64, 128
THOUGHT_TOO_LONG = f"a call came with thinking off; with thinking, none came within {CALL_START_TOKENS} tokens"
# So many characters of text are an answer and not the start of a call.
SHORTEST_TEXT = 16


async def tools(client: ProbeClient) -> Observation:
    choice = "auto"
    with_auto = await client.ask(tools=TOOLS, tool_choice=choice)
    if isinstance(with_auto, Rejection):
        choice = "none"
        with_none = await client.ask(tools=TOOLS, tool_choice=choice)
        if isinstance(with_none, Rejection):
            return Observation(Verdict.DOES_NOT, str(with_auto), IN_MESSAGES, {"shows_tools": False, "reads_calls": False})
    shown = await _are_shown(client, choice)
    facts: dict[str, Any] = {"reads_calls": choice == "auto"} | ({} if shown is None else {"shows_tools": shown})
    if isinstance(with_auto, Rejection):
        return Observation(Verdict.DOES_NOT, str(with_auto), IN_MESSAGES if shown is False else PARSED_HERE, facts)
    if shown is False:
        return Observation(Verdict.DOES_NOT, "accepted, but the template does not show them to the model", IN_MESSAGES, facts)
    if shown is None:
        return Observation(Verdict.UNKNOWN, "accepted; it is not known whether the model sees them", facts=facts)
    return Observation(Verdict.WORKS, "the model sees them", facts=facts)


async def _are_shown(client: ProbeClient, choice: str) -> bool | None:
    """The rendered prompt is the best source, then what the engine reports, then the length of the prompt."""
    prompt = await client.rendered_prompt(tools=LONG_TOOLS, tool_choice=choice)
    if prompt is not None:
        return MARK in prompt
    if (reported := await client.reported(client.dialect.reported_tools)) is not None:
        return reported
    return await client.is_in_prompt(
        MARK, {"tools": LONG_TOOLS, "tool_choice": choice}, {"tools": TOOLS, "tool_choice": choice}
    )


async def parallel_calls(client: ProbeClient) -> Observation:
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
