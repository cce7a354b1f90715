"""Probes of answers: constrained JSON, reasoning, usage, cached tokens, logprobs."""

from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

from antiphon.core.checks.gbnf import schema_to_gbnf
from antiphon.core.knowledge.dialect import accepted_to_efforts
from antiphon.engines.probes.client import Answer, ProbeClient, Rejection
from antiphon.engines.probes.findings import ASKED_WITHOUT_THINKING, Observation, Verdict
from antiphon.engines.probes.questions import (
    CODE_WORD,
    CODE_WORD_TOOL,
    CODE_WORD_TOOLS,
    FOR_CODE_WORD,
    JSON_FORMAT,
    LONG_PROMPT,
    ODD_WORDS,
    OPENED_THOUGHT,
    PUZZLE,
    SCHEMA,
    TOOLS,
    WHOLE_THOUGHT,
    begins_as_schema,
    follows_schema,
)
from antiphon.errors import counted

# ---- does a model see the tools of a request? ------------------------------------------------------------------------
# It is asked for a word that only a description of a tool has.
# A word that nobody can guess is the proof, wherever it comes: in a call, in the text, or in a thought. A call alone proves
# nothing, because some engines constrain an answer to one. No schema has the word, so no grammar can spell it out. A call of
# another tool is only what a model makes up that was asked to call one.

# A call takes about thirty tokens, and a thought soon has the word.
MOST_TOKENS = 128


class Knowledge(Enum):
    KNOWS = "the word came"
    CALLS = "the tool was called, without the word"
    NOTHING = "neither came"


async def ask_for_code_word(client: ProbeClient, choice: str) -> Knowledge:
    """One short answer, which ends as soon as the word has come. `choice`: the engine accepts tools with it."""
    asked: dict[str, Any] = {"messages": FOR_CODE_WORD, "tools": CODE_WORD_TOOLS, "tool_choice": choice}
    answer = await client.ask(tokens=MOST_TOKENS, stop_when=_has_word, **asked)
    if not isinstance(answer, Answer):
        return Knowledge.NOTHING
    if _has_word(answer):
        return Knowledge.KNOWS
    return Knowledge.CALLS if any(call.name == CODE_WORD_TOOL for call in answer.calls) else Knowledge.NOTHING


def _has_word(answer: Answer) -> bool:
    written = (answer.text, answer.reasoning, *(call.arguments for call in answer.calls))
    return any(CODE_WORD in text.lower() for text in written)


REASONING_MEMBERS = ("reasoning_content", "reasoning", "thinking")

SHOWN_AND_CHECKED = "shows the schema to the model, checks and repairs the answer, and asks once more"
SENT_AS_GRAMMAR = "sends the schema as a grammar, with thinking off"
READ_HERE = "switches that parser off if it can, and reads the answers itself"
SPELLED_OUT = "makes it the beginning of every grammar, and of an answer that the engine has failed at"
NEAREST_EFFORT = "sends the nearest effort that the template accepts, with a notice"
FOUND_IN_TEXT = "finds the reasoning in the text, and makes a reasoning item of it"
REMEMBERED = "remembers that answers of this model begin inside a thought"
LEFT_OUT = "leaves logprobs out when tools are offered, with a notice"
PASSED_ON = "asks for them when a client does, and forwards what the engine answers"
MISSING = "asks for them all the same when a client does, and adds a notice that none came"
NOT_COUNTED = "reports 0 cached tokens; it keeps each prompt a prefix of the next one, so that a cache works all the same"
ESTIMATED = "estimates usage, by the engine's tokenizer or by length"

THOUGHT_TOO_LONG = "the answer followed the schema with thinking off; with thinking, none came within {tokens} tokens"

# What llama.cpp recognizes a template by (common/chat.cpp), and what its parser of that template wants an answer to begin
# with (common/parsers: gpt-oss.cpp, functionary-v3-2.cpp).
ANSWER_PREFIXES: dict[tuple[str, ...], str] = {
    ("<|channel|>",): "<|channel|>final<|message|>",
    (">>>all", ">>>${recipient}"): "all\n",
}
# What such a parser looks for at the end of the prompt (common/parsers/deepseek.cpp).
PROMPT_MARKS: dict[tuple[str, ...], str] = {("dsml_token", "DSML"): "<｜Assistant｜>"}

# The object takes about thirty tokens, and more with a lot of white space.
OBJECT_TOKENS = 96
THOUGHT_TOKENS = 96


# ---- JSON ------------------------------------------------------------------------------------------------------------


async def json_schema(client: ProbeClient) -> Observation:
    observed = await _constrained(client, {"constrains_json"}, {"takes_response_format"})
    if observed.verdict is Verdict.DOES_NOT and await _obeys_grammar(client):
        facts = {**observed.facts, "constrains_json": True, "takes_response_format": True, "constraint_member": "grammar"}
        return Observation(Verdict.PARTLY, f"{observed.detail}; a grammar is obeyed", SENT_AS_GRAMMAR, facts)
    return observed


async def json_schema_with_tools(client: ProbeClient) -> Observation:
    """Some engines turn tools and schemas into a grammar, and reject a request that would need two."""
    with_tools = await client.ask(tools=TOOLS, tool_choice="auto")
    if isinstance(with_tools, Rejection):
        return Observation(Verdict.UNKNOWN, "tools alone are rejected")
    # Its requests have been answered already.
    alone = await json_schema(client)
    if "constraint_member" in alone.facts:
        return Observation(alone.verdict, alone.detail, alone.remedy)
    choice = "auto" if client.dialect.calls_when_constrained else "none"
    return await _constrained(client, {"constrains_json_with_tools"}, tools=TOOLS, tool_choice=choice)


async def _constrained(
    client: ProbeClient, constrained: set[str], accepted: Set[str] = frozenset(), **fields: Any
) -> Observation:
    """Nothing in the prompt asks for JSON, so an answer in JSON was constrained.

    `constrained` and `accepted` name the facts that depend on it, and on the acceptance of the request.
    """
    request: dict[str, Any] = {
        "response_format": JSON_FORMAT,
        "tokens": OBJECT_TOKENS,
        "stop_when": _leaves_schema,
        **fields,
    }
    no_thinking = await client.without_thinking()
    # A 5xx to both together is a rejection, if each alone is answered.
    ask = client.ask_twice if "tools" in fields else client.ask
    answer = await ask(**request, **no_thinking)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), SHOWN_AND_CHECKED, dict.fromkeys(constrained | accepted, False))
    text = answer.text
    # No model writes an odd word unless it is constrained to, so the rest may be cut off.
    if _is_constrained(text):
        facts = dict.fromkeys(constrained, True)
        if no_thinking and await client.only_thinks(**request):
            return Observation(Verdict.PARTLY, THOUGHT_TOO_LONG.format(tokens=OBJECT_TOKENS), ASKED_WITHOUT_THINKING, facts)
        return Observation(Verdict.WORKS, "the answer followed the schema", facts=facts)
    if answer.calls:
        return Observation(Verdict.UNKNOWN, "a call came instead of an answer")
    if begins_as_schema(text) and (answer.finish_reason == "length" or not text.strip()):
        return Observation(Verdict.UNKNOWN, "no answer came within a few tokens")
    return Observation(
        Verdict.DOES_NOT, "the answer did not follow the schema", SHOWN_AND_CHECKED, dict.fromkeys(constrained, False)
    )


def _is_constrained(text: str) -> bool:
    return follows_schema(text) or (begins_as_schema(text) and any(word in text for word in ODD_WORDS))


def _leaves_schema(answer: Answer) -> bool:
    return not begins_as_schema(answer.text)


async def _obeys_grammar(client: ProbeClient) -> bool:
    member = client.dialect.grammar_member
    if member is None:
        return False
    grammar = schema_to_gbnf(SCHEMA, await _prefix(client) or "")
    answer = await client.ask_twice(tokens=OBJECT_TOKENS, **{member: grammar}, **await client.without_thinking())
    # A template may leave a thought open all the same, which the answer is taken for then.
    return isinstance(answer, Answer) and _is_constrained(answer.text or answer.reasoning)


async def answer_format(client: ProbeClient) -> Observation:
    """llama.cpp has a parser for some templates that fails on an answer which does not begin as they have it."""
    prefix = await _prefix(client)
    if prefix is None:
        return Observation(Verdict.UNKNOWN, "the engine does not show its chat template")
    if not prefix and client.parser_fails:
        detail = "the engine's own parser fails on what this model writes"
        return Observation(Verdict.PARTLY, detail, READ_HERE, {"answer_prefix": ""})
    if not prefix:
        return Observation(Verdict.WORKS, "an answer may begin with anything", facts={"answer_prefix": ""})
    detail = f"the engine fails if an answer does not begin with {prefix.strip()}"
    return Observation(Verdict.PARTLY, detail, SPELLED_OUT, {"answer_prefix": prefix})


async def _prefix(client: ProbeClient) -> str | None:
    return await _of_template(client, ANSWER_PREFIXES)


async def prompt_mark(client: ProbeClient) -> str | None:
    """What the engine's parser looks for at the end of a prompt; empty if it looks for nothing."""
    return await _of_template(client, PROMPT_MARKS)


async def _of_template(client: ProbeClient, by_marks: Mapping[tuple[str, ...], str]) -> str | None:
    # The template of an engine that does not show it is not read by its parser either, as far as is known.
    template = await client.template_text() if client.dialect.template_text else None
    if template is None:
        return None
    return next((wanted for marks, wanted in by_marks.items() if all(mark in template for mark in marks)), "")


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


async def reasoning_efforts(client: ProbeClient) -> Observation:
    """Some templates know only efforts of their own, and fail at others."""
    tried = {sent: await client.rejection(reasoning_effort=sent) for sent in dict.fromkeys(client.dialect.efforts.values())}
    refused = {sent: rejection for sent, rejection in tried.items() if rejection is not None}
    if not refused:
        return Observation(Verdict.WORKS, f"accepted: {', '.join(tried)}")
    detail = f"{', '.join(refused)}: {next(iter(refused.values()))}"
    efforts = accepted_to_efforts(tried.keys() - refused.keys())
    return Observation(Verdict.PARTLY if efforts else Verdict.DOES_NOT, detail, NEAREST_EFFORT, {"efforts": efforts})


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
    cached = counted(answer.cached_tokens, "token")
    return Observation(Verdict.WORKS, f"of a prompt that was sent twice, {cached} came from the cache")


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
