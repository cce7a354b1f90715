"""Whether tools are shown, calls are read, and choices are kept."""

from typing import Any

from antiphon.engines.probes.asker import Asker, Heard, Refusal
from antiphon.engines.probes.findings import Seen, Verdict
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

READ_HERE = "sends the tools with the choice none, and finds the calls in what the model writes"
WRITTEN_OUT = "writes the tools, calls and results into the messages, and finds the calls in what the model writes"
ASKED_FOR = "has the answer constrained to a call where JSON can be, and else asks for one, twice"
CHECKED = "checks the arguments, mends them, and asks for the call once more"
ONE_BY_ONE = "passes calls on as they come; a model that makes one at a time makes the next in its next turn"

# So many tokens show whether a call comes; so many hold the arguments of the tools above.
CALL_BEGINS, CALL_ENDS = 64, 128
# So much text, and it is an answer and no call.
AN_ANSWER = 16


async def tools(asker: Asker) -> Seen:
    choice = "auto"
    refused = await asker.ask(tools=TOOLS, tool_choice=choice)
    if isinstance(refused, Refusal):
        choice = "none"
        unread = await asker.ask(tools=TOOLS, tool_choice=choice)
        if isinstance(unread, Refusal):
            return Seen(Verdict.DOES_NOT, str(refused), WRITTEN_OUT, {"shows_tools": False, "reads_calls": False})
    shown = await _shown(asker, choice)
    facts: dict[str, Any] = {"reads_calls": choice == "auto"} | ({} if shown is None else {"shows_tools": shown})
    if isinstance(refused, Refusal):
        return Seen(Verdict.DOES_NOT, str(refused), WRITTEN_OUT if shown is False else READ_HERE, facts)
    if shown is False:
        return Seen(Verdict.DOES_NOT, "taken, but the template does not show them to the model", WRITTEN_OUT, facts)
    if shown is None:
        return Seen(Verdict.UNKNOWN, "taken; whether the model sees them cannot be told", facts=facts)
    return Seen(Verdict.WORKS, "the model sees them", facts=facts)


async def _shown(asker: Asker, choice: str) -> bool | None:
    """The prompt itself is believed before the engine's word, and that before what can be counted."""
    prompt = await asker.rendered(tools=LONG_TOOLS, tool_choice=choice)
    if prompt is not None:
        return MARK in prompt
    if (told := await asker.told(asker.dialect.tells_tools)) is not None:
        return told
    return await asker.reaches(MARK, {"tools": LONG_TOOLS, "tool_choice": choice}, {"tools": TOOLS, "tool_choice": choice})


async def parallel_calls(asker: Asker) -> Seen:
    told = await asker.told(asker.dialect.tells_parallel_calls)
    if told is not None:
        words = "the template has them" if told else "the template has none"
        return Seen(Verdict.WORKS if told else Verdict.DOES_NOT, words, ONE_BY_ONE)
    answer = await asker.ask(messages=TWO_CALLS, tools=TOOLS, tool_choice="auto", tokens=2 * CALL_ENDS)
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), ONE_BY_ONE)
    if len(answer.calls) > 1:
        return Seen(Verdict.WORKS, f"{len(answer.calls)} calls came in one answer")
    return Seen(Verdict.UNKNOWN, f"{len(answer.calls) or 'no'} call came where two were asked for: it may be the model")


async def required_choice(asker: Asker) -> Seen:
    return await _kept(asker, "required", (FIRST, SECOND), "enforces_required")


async def named_choice(asker: Asker) -> Seen:
    return await _kept(asker, {"type": "function", "function": {"name": SECOND}}, (SECOND,), "enforces_named")


def _is_decided(heard: Heard) -> bool:
    return bool(heard.calls) or len(heard.text.strip()) >= AN_ANSWER


async def _kept(asker: Asker, choice: Any, names: tuple[str, ...], fact: str) -> Seen:
    """Nothing in the prompt calls for a tool: a call comes because it must."""
    fields: dict[str, Any] = {"tools": TOOLS, "tokens": CALL_BEGINS, "enough": _is_decided, **await asker.without_thinking()}
    answer = await asker.ask(tool_choice=choice, **fields)
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), ASKED_FOR, {fact: False})
    if any(call.name not in names for call in answer.calls):
        return Seen(Verdict.DOES_NOT, f"{answer.calls[0].name} was called, which was not the choice", ASKED_FOR, {fact: False})
    if answer.calls:
        unasked = await asker.ask(tool_choice="auto", **fields)
        if isinstance(unasked, Heard) and unasked.calls:
            return Seen(Verdict.UNKNOWN, "a call came, but this model calls without being told to")
        return Seen(Verdict.WORKS, "a call came where nothing asked for one", facts={fact: True})
    if answer.text.strip():
        return Seen(Verdict.DOES_NOT, "text came instead of a call", ASKED_FOR, {fact: False})
    return Seen(Verdict.UNKNOWN, "neither a call nor text came within a few tokens")


async def strict_arguments(asker: Asker) -> Seen:
    answer = await asker.ask(tools=STRICT_TOOLS, tool_choice="required", tokens=CALL_ENDS, **await asker.without_thinking())
    if isinstance(answer, Refusal) or not answer.calls:
        return Seen(Verdict.UNKNOWN, "no call could be had to look at", CHECKED)
    arguments = answer.calls[0].arguments
    if follows_schema(arguments):
        return Seen(Verdict.WORKS, "the arguments followed the schema", facts={"constrains_calls": True})
    if answer.finish == "length" and begins_as_schema(arguments):
        return Seen(Verdict.UNKNOWN, "the arguments were cut off", CHECKED)
    return Seen(Verdict.DOES_NOT, "the arguments did not follow the schema", CHECKED, {"constrains_calls": False})
