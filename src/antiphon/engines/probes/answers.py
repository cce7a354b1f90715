"""What comes out: constrained answers, thoughts, probabilities, usage."""

from collections.abc import Set
from typing import Any

from antiphon.engines.probes.asker import Asker, Heard, Refusal
from antiphon.engines.probes.findings import Seen, Verdict
from antiphon.engines.probes.questions import (
    JSON_FORMAT,
    ODD_WORDS,
    OPENED_THOUGHT,
    PUZZLE,
    TOOLS,
    WHOLE_THOUGHT,
    begins_as_schema,
    follows_schema,
)

REASONING_MEMBERS = ("reasoning_content", "reasoning", "thinking")

SHOWN_AND_CHECKED = "shows the schema to the model, checks the answer, mends it, and asks once more"
FOUND_IN_TEXT = "finds the thought in the text, and makes a reasoning item of it"
REMEMBERED = "remembers that answers of this model begin inside a thought"
LEFT_OUT = "leaves logprobs out where tools are offered, with a notice"
PASSED_ON = "asks for them where a client does, and passes on what the engine says"
ESTIMATED = "estimates usage, by the engine's tokenizer or by length"

# The object that is asked for takes some thirty tokens, some more with generous blanks.
OBJECT_ENDS = 96
THOUGHT_SHOWS = 96


# ---- JSON ------------------------------------------------------------------------------------------------------------


async def json_schema(asker: Asker) -> Seen:
    return await _held(asker, {"constrains_json"}, {"takes_response_format"})


async def json_schema_with_tools(asker: Asker) -> Seen:
    """Some engines make the same grammar for both, and refuse to make two."""
    offered = await asker.ask(tools=TOOLS, tool_choice="auto")
    if isinstance(offered, Refusal):
        return Seen(Verdict.UNKNOWN, "tools are refused by themselves")
    return await _held(asker, {"constrains_json_with_tools"}, tools=TOOLS, tool_choice="auto")


async def _held(asker: Asker, held: set[str], taken: Set[str] = frozenset(), **fields: Any) -> Seen:
    """Nothing in the prompt asks for JSON: it comes because it must. `held` and `taken` are the facts that this shows."""
    fields |= await asker.without_thinking()
    answer = await asker.ask(response_format=JSON_FORMAT, tokens=OBJECT_ENDS, enough=_goes_astray, **fields)
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), SHOWN_AND_CHECKED, dict.fromkeys(held | taken, False))
    text = answer.text
    # An odd word cannot have come by itself, even if the rest was cut off.
    if follows_schema(text) or (begins_as_schema(text) and any(word in text for word in ODD_WORDS)):
        return Seen(Verdict.WORKS, "the answer followed the schema", facts=dict.fromkeys(held, True))
    if answer.calls:
        return Seen(Verdict.UNKNOWN, "a call came instead of an answer")
    if begins_as_schema(text) and (answer.finish == "length" or not text.strip()):
        return Seen(Verdict.UNKNOWN, "no answer came within a few tokens")
    return Seen(Verdict.DOES_NOT, "the answer did not follow the schema", SHOWN_AND_CHECKED, dict.fromkeys(held, False))


def _goes_astray(heard: Heard) -> bool:
    return not begins_as_schema(heard.text)


# ---- thoughts --------------------------------------------------------------------------------------------------------


async def reasoning(asker: Asker) -> Seen:
    answer = await _think(asker)
    if isinstance(answer, Refusal):
        return Seen(Verdict.UNKNOWN, str(answer))
    shape = _shape(answer)
    if shape is None:
        told = await asker.told(asker.dialect.tells_reasoning)
        words = "the engine says that this model does not think" if told is False else "no thought was seen"
        return Seen(Verdict.UNKNOWN, words)
    own = await _think(asker, **dict.fromkeys(asker.dialect.extra)) if asker.dialect.extra else answer
    unasked = _shape(own) if isinstance(own, Heard) else None
    detail = f"comes {shape}" + (f"; unasked it would come {unasked}" if unasked not in (None, shape) else "")
    if answer.unopened:
        return Seen(Verdict.PARTLY, detail, REMEMBERED, {"opens_thought": True})
    if not answer.members & {*REASONING_MEMBERS}:
        return Seen(Verdict.PARTLY, detail, FOUND_IN_TEXT, {"opens_thought": False})
    return Seen(Verdict.WORKS, detail, facts={"opens_thought": False})


async def _think(asker: Asker, **fields: Any) -> Heard | Refusal:
    """A grammar makes any model think; without one it is asked to, and may or may not."""
    member = asker.dialect.grammar_member
    if member is None:
        return await asker.ask(messages=PUZZLE, tokens=THOUGHT_SHOWS, **fields)
    prompt = await asker.rendered()
    opened = prompt is not None and prompt.rstrip().endswith("<think>")
    fields[member] = OPENED_THOUGHT if opened else WHOLE_THOUGHT
    return await asker.ask(tokens=THOUGHT_SHOWS, **fields)


def _shape(heard: Heard) -> str | None:
    field = next((member for member in REASONING_MEMBERS if member in heard.members), None)
    if field is not None:
        return f"in {field}" + (", and again in the text" if "</think>" in heard.raw else "")
    if heard.unopened:
        return "in the text, ended by </think> but never opened: the template opens it"
    return "in the text, between <think> and </think>" if heard.thought else None


# ---- numbers ---------------------------------------------------------------------------------------------------------


async def usage(asker: Asker) -> Seen:
    answer = await asker.plain()
    if answer.usage is None:
        return Seen(Verdict.DOES_NOT, "none came", ESTIMATED, {"reports_usage": False})
    return Seen(Verdict.WORKS, "it came with the end of the stream", facts={"reports_usage": True})


async def logprobs(asker: Asker) -> Seen:
    wanted: dict[str, Any] = {"logprobs": True, "top_logprobs": 1, "tokens": 2}
    answer = await asker.ask(**wanted)
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), PASSED_ON)
    if not answer.logprobs:
        return Seen(Verdict.DOES_NOT, "taken, but none came", PASSED_ON)
    offer: dict[str, Any] = {"tools": TOOLS, "tool_choice": "auto"}
    if isinstance(await asker.ask(**offer), Refusal):
        return Seen(Verdict.WORKS, "they came")
    both = await asker.ask(**wanted, **offer)
    if isinstance(both, Refusal):
        return Seen(Verdict.PARTLY, f"they came; with tools {both}", LEFT_OUT, {"takes_logprobs_with_tools": False})
    return Seen(Verdict.WORKS, "they came, and are taken with tools", facts={"takes_logprobs_with_tools": True})
