"""Probes of the chat template: what it demands of messages, and what it shows of them.

Where the engine shows prompts, nothing is generated for these. Elsewhere each costs a few requests for one token. The messages
of a probe satisfy every demand but the one that it is about.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.knowledge import template_demands as demands
from antiphon.core.knowledge.template_demands import REMEDIES, facts_in_text, words_in_text
from antiphon.engines.probes import answers
from antiphon.engines.probes.answers import Knowledge, ask_for_code_word
from antiphon.engines.probes.client import ProbeClient, Rejection
from antiphon.engines.probes.findings import NoAnswer, Observation, Verdict
from antiphon.engines.probes.questions import FIRST, HELLO, LONG, LONG_TOOLS, MARK, SHORT, TOOLS

Message = dict[str, Any]
Messages = list[Message]
Fields = dict[str, Any]

READ_FROM_FILE = "assumes what the dialect of the engine says; --chat-template FILE lets it read the template"
AS_TAGS = "sends it as text, between <think> and </think>"
GO_ON_AFTER_RESULTS = "puts a short user message after the results"
WHERE_SHOWN = "sends it nevertheless: the template decides where it is shown"

# Ids that every template accepts, and one of the usual kind.
ID, SECOND_ID = "a1b2c3d4e", "f5g6h7i8j"
USUAL_ID = "call_0123456789abcdef0123456789"
SECOND_MARK = "wobblefern"
SHOWN_TOOLS: Mapping[bool | None, str] = {
    True: "the model sees them",
    False: "accepted, but the template does not show them to the model",
    None: "accepted; it is not known whether the model sees them",
}
# The places of a thought.
CURRENT, EARLIER = "in the current turn", "before the last user message"


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def called(*identifiers: str, text: str = "", words: Sequence[str] = (SHORT, SHORT)) -> Message:
    calls = [
        {"id": identifier, "type": "function", "function": {"name": FIRST, "arguments": _arguments(word)}}
        for identifier, word in zip(identifiers, words, strict=False)
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def _arguments(word: str) -> str:
    return f'{{"word": "{word}", "number": 1}}'


def returned(identifier: str, text: str = SHORT) -> Message:
    return {"role": "tool", "tool_call_id": identifier, "content": text}


DONE = said("Done.")
LOOP: Messages = [*HELLO, called(ID), returned(ID)]
HISTORY: Messages = [*LOOP, DONE, *HELLO]


# ---- what the probes ask ---------------------------------------------------------------------------------------------


async def tool_fields(client: ProbeClient) -> Fields:
    """The fields that offer tools: without a choice where prompts are shown, else with the first one that is accepted. None if
    the engine rejects tools."""
    choices: list[Fields] = [{}] if await client.renders() else [{"tool_choice": choice} for choice in ("auto", "none")]
    for choice in choices:
        if await client.rejection(tools=TOOLS, **choice) is None:
            return {"tools": TOOLS, **choice}
    return {}


async def _is_shown(client: ProbeClient, make: Callable[[str], Messages], fields: Fields) -> bool | None:
    """Whether a text gets into the prompt of the messages that are made with it."""
    return await client.is_in_prompt(MARK, {"messages": make(LONG), **fields}, {"messages": make(SHORT), **fields})


async def takes_calls(client: ProbeClient) -> bool:
    """Whether a history with one call is accepted. Otherwise more of them show nothing."""
    return await client.rejection(messages=HISTORY, **await tool_fields(client)) is None


async def shows_calls(client: ProbeClient, fields: Fields) -> bool | None:
    """Whether the prompt has the arguments of earlier calls, and their results. None: it is not known."""
    shown = [
        await _is_shown(client, lambda word: [*HELLO, called(ID, words=[word]), returned(ID)], fields),
        await _is_shown(client, lambda word: [*HELLO, called(ID), returned(ID, word)], fields),
    ]
    if False in shown:
        return False
    return None if None in shown else True


async def shows_tools(client: ProbeClient, fields: Fields) -> tuple[bool | None, str]:
    """Whether the model sees tools, and in the rendered prompt also the calls and results of the history: one without the
    other is no use. Where a longer tool makes no longer prompt, the engine may only not count tools: what the model knows of
    them decides."""
    shown = await client.is_in_prompt(MARK, {**fields, "tools": LONG_TOOLS}, fields)
    if shown and await client.renders() and await shows_calls(client, fields) is False:
        return False, "the template shows the tools, but not the calls, or not their results"
    if not shown and "tool_choice" in fields:
        knowledge = await ask_for_code_word(client, fields["tool_choice"])
        if knowledge is Knowledge.KNOWS:
            return True, "the model sees them: it knows what only the description of a tool says"
        if knowledge is Knowledge.CALLS:
            # It may have been constrained to a call, and it may not have been able to make a better one.
            shown = None
    return shown, SHOWN_TOOLS[shown]


async def _first_rejection(client: ProbeClient, cases: Mapping[str, Messages], fields: Fields) -> str | None:
    """What is rejected first, and in which words."""
    for case, messages in cases.items():
        if (rejection := await client.rejection(messages=messages, **fields)) is not None:
            return f"{case}: {rejection}"
    return None


async def _expect(client: ProbeClient, messages: Messages, fields: Fields) -> None:
    """What a probe compares with must be accepted."""
    if (rejection := await client.rejection(messages=messages, **fields)) is not None:
        raise NoAnswer(f"messages with nothing special in them were {rejection}")


async def _expect_calls(client: ProbeClient) -> Fields:
    """What a template demands of calls matters only if it shows them."""
    fields = await tool_fields(client)
    shows_none = (await shows_tools(client, fields))[0] is False and not await takes_calls(client)
    if shows_none or await shows_calls(client, fields) is False:
        raise NoAnswer("the template does not show calls with their results: they are written as text")
    await _expect(client, HISTORY, fields)
    return fields


# ---- the probes ------------------------------------------------------------------------------------------------------


async def template_text(client: ProbeClient) -> Observation:
    """The weakest source of all: what other probes see replaces its facts."""
    text = await client.template_text()
    if text is None and await client.renders():
        return Observation(Verdict.WORKS, "the engine does not show its text, but shows what becomes of messages")
    if text is None:
        return Observation(Verdict.UNKNOWN, "the engine does not show its text", READ_FROM_FILE)
    found = words_in_text(text)
    detail = (
        f"it rejects messages in these words: {'; '.join(found)}"
        if found
        else "it has none of the known words that reject messages"
    )
    return Observation(Verdict.WORKS, f"its text is known; {detail}", facts=facts_in_text(text))


async def users_in_a_row(client: ProbeClient) -> Observation:
    remedy = REMEDIES[demands.IN_A_ROW]
    await _expect(client, [*HELLO, DONE, *HELLO], {})
    rejected = await _first_rejection(client, {"two user messages": [*HELLO, *HELLO]}, {})
    if rejected is None and await takes_calls(client):
        rejected = await _first_rejection(client, {"a user message after a result": [*LOOP, *HELLO]}, await tool_fields(client))
    if rejected is not None:
        return Observation(Verdict.DOES_NOT, rejected, remedy, {"alternates": True})
    if await _is_shown(client, lambda text: [{"role": "user", "content": text}, *HELLO], {}) is False:
        return Observation(Verdict.DOES_NOT, "accepted, but only one of them is shown", remedy, {"alternates": True})
    return Observation(Verdict.WORKS, "accepted", facts={"alternates": False})


async def first_message(client: ProbeClient) -> Observation:
    await _expect(client, [*HELLO, DONE, *HELLO], {})
    without_user: dict[str, Messages] = {}
    led: Messages = [{"role": "system", "content": SHORT}]
    if await client.rejection(messages=[*led, *HELLO]) is None:
        without_user["no user message"] = led
    cases = {"an assistant message": [DONE, *HELLO], **without_user}
    rejected = await _first_rejection(client, cases, {})
    if rejected is None and without_user and await _asks_for_no_answer(client, led):
        rejected = "no user message: accepted, but the prompt does not ask the model for an answer then"
    fields = await tool_fields(client)
    if rejected is None and fields:
        rejected = await _first_rejection(client, {f"{case}, with tools": cases[case] for case in cases}, fields)
    if rejected is None and await takes_calls(client):
        rejected = await _first_rejection(client, {"a call": [called(ID), returned(ID)]}, fields)
    if rejected is not None:
        return Observation(Verdict.DOES_NOT, rejected, REMEDIES[demands.FIRST_MESSAGE], {"begins_with_user": True})
    return Observation(Verdict.WORKS, "it need not be the user's", facts={"begins_with_user": False})


async def _asks_for_no_answer(client: ProbeClient, messages: Messages) -> bool:
    """The template does not open the assistant's turn after these messages, as it does after a user's."""
    opens = []
    for each in (HELLO, messages):
        prompt = await client.rendered_prompt(messages=each)
        unopened = await client.rendered_prompt(messages=each, add_generation_prompt=False)
        opens.append(None not in (prompt, unopened) and prompt != unopened)
    return opens == [True, False]


async def call_ids(client: ProbeClient) -> Observation:
    fields = await _expect_calls(client)
    usual = [*HELLO, called(USUAL_ID), returned(USUAL_ID), DONE, *HELLO]
    if (rejection := await client.rejection(messages=usual, **fields)) is not None:
        return Observation(Verdict.DOES_NOT, str(rejection), REMEDIES[demands.IDS], {"call_id_length": len(ID)})
    return Observation(Verdict.WORKS, "any id is accepted", facts={"call_id_length": None})


async def parallel_history(client: ProbeClient) -> Observation | None:
    """None: the engine does not show prompts, and accepts two calls in a message."""
    remedy, fact = REMEDIES[demands.PARALLEL], "takes_parallel_calls"
    fields = await _expect_calls(client)

    def made(word: str) -> Messages:
        calls = called(ID, SECOND_ID, words=[SECOND_MARK, word])
        return [*HELLO, calls, returned(ID), returned(SECOND_ID), DONE, *HELLO]

    if (rejection := await client.rejection(messages=made(LONG), **fields)) is not None:
        return Observation(Verdict.DOES_NOT, f"two calls in a message: {rejection}", remedy, {fact: False})
    prompt = await client.rendered_prompt(messages=made(LONG), **fields)
    if prompt is None:
        return None
    if MARK in prompt and SECOND_MARK in prompt:
        return Observation(Verdict.WORKS, "two calls in a message are shown", facts={fact: True})
    return Observation(Verdict.DOES_NOT, "of two calls in a message, not both are shown", remedy, {fact: False})


async def text_beside_calls(client: ProbeClient) -> Observation:
    remedy, fact = REMEDIES[demands.TEXT_WITH_CALLS], "shows_text_with_calls"
    fields = await _expect_calls(client)

    def text(word: str) -> Messages:
        return [*HELLO, called(ID, text=word), returned(ID)]

    def call(word: str) -> Messages:
        return [*HELLO, called(ID, text=SHORT, words=[word]), returned(ID)]

    def earlier_text(word: str) -> Messages:
        return [*text(word), DONE, *HELLO]

    shown = []
    for name, make in {"the text": text, "the call": call, "the text of an earlier turn": earlier_text}.items():
        if (rejection := await client.rejection(messages=make(LONG), **fields)) is not None:
            return Observation(Verdict.DOES_NOT, str(rejection), remedy, {fact: False})
        shown.append(await _is_shown(client, make, fields))
        if shown[-1] is False:
            return Observation(Verdict.DOES_NOT, f"accepted, but {name} is not shown", remedy, {fact: False})
    thoughtful = {**called(ID, text=SHORT), "reasoning_content": SHORT}
    if (rejection := await client.rejection(messages=[*HELLO, thoughtful, returned(ID)], **fields)) is not None:
        return Observation(Verdict.DOES_NOT, f"with reasoning: {rejection}", remedy, {fact: False})
    if None in shown:
        return Observation(Verdict.UNKNOWN, "accepted; it is not known whether the model sees it")
    return Observation(Verdict.WORKS, "both are shown", facts={fact: True})


# ---- reasoning -------------------------------------------------------------------------------------------------------


Make = Callable[[str], Messages]


async def _shown_places(client: ProbeClient, places: Mapping[str, Make], fields: Fields) -> dict[str, bool]:
    """Where a thought gets into the prompt. A place of which nothing is known is left out."""
    shown = {}
    for place, make in places.items():
        seen = await _is_shown(client, make, fields)
        if seen is None and isinstance(await client.render(messages=make(LONG), **fields), Rejection):
            seen = False
        if seen is not None:
            shown[place] = seen
    return shown


async def _after_results(client: ProbeClient) -> Messages:
    """What is sent after results. It may end the current turn, with its thoughts."""
    return [] if (await answer_format(client)).facts.get("answers_results", True) else HELLO


async def _member_places(client: ProbeClient, member: str, *, with_calls: bool) -> dict[str, Make]:
    places: dict[str, Make] = {EARLIER: lambda thought: [*HELLO, {**DONE, member: thought}, *HELLO]}
    if with_calls:
        after = await _after_results(client)
        places[CURRENT] = lambda thought: [*HELLO, {**called(ID), member: thought}, returned(ID), *after]
    return places


async def _tag_places(client: ProbeClient, *, with_calls: bool) -> dict[str, Make]:
    """A thought in tags is sent as the text of the message, and so as that text is sent beside calls."""

    def tagged(thought: str) -> str:
        return f"<think>\n{thought}\n</think>\n\n"

    places: dict[str, Make] = {EARLIER: lambda thought: [*HELLO, said(tagged(thought) + "Done."), *HELLO]}
    after = await _after_results(client)
    if with_calls and (await text_beside_calls(client)).facts.get("shows_text_with_calls", True):
        places[CURRENT] = lambda thought: [*HELLO, called(ID, text=tagged(thought)), returned(ID), *after]
    elif with_calls:
        between = HELLO if (await users_in_a_row(client)).facts["alternates"] else []
        places[CURRENT] = lambda thought: [*HELLO, said(tagged(thought)), *between, called(ID), returned(ID), *after]
    return places


async def earlier_reasoning(client: ProbeClient) -> Observation:
    """The member of the message is taken if it is shown in the current turn: the model knows that form. A template that cuts
    the thoughts of earlier turns means to. Otherwise the way that shows most is taken."""
    fields = await tool_fields(client)
    # Where tools are written as text, there are no messages with calls.
    with_calls = bool(fields) and (await shows_tools(client, fields))[0] is True
    await _expect(client, HISTORY if with_calls else [*HELLO, DONE, *HELLO], fields)
    member = client.dialect.reasoning_member or "reasoning_content"
    by_member = await _shown_places(client, await _member_places(client, member, with_calls=with_calls), fields)
    if not by_member:
        return Observation(Verdict.UNKNOWN, "it is not known whether the model sees it")
    if all(by_member.values()):
        return Observation(Verdict.WORKS, f"{member} is shown", facts={"reasoning_member": member, "shows_reasoning": True})
    in_tags = await _shown_places(client, await _tag_places(client, with_calls=with_calls), fields)
    if not by_member.get(CURRENT) and sum(in_tags.values()) > sum(by_member.values()):
        detail = f"{member} is not shown{_where(by_member, False)}; between <think> and </think> it is{_where(in_tags, True)}"
        return Observation(Verdict.PARTLY, detail, AS_TAGS, {"reasoning_member": None, "shows_reasoning": True})
    if any(by_member.values()):
        detail = f"{member} is shown{_where(by_member, True)}, not{_where(by_member, False)}"
        return Observation(Verdict.PARTLY, detail, WHERE_SHOWN, {"reasoning_member": member, "shows_reasoning": True})
    detail = f"neither {member} nor text between <think> and </think> is shown"
    facts = {"reasoning_member": member, "shows_reasoning": False}
    return Observation(Verdict.DOES_NOT, detail, REMEDIES[demands.EARLIER_REASONING], facts)


def _where(places: Mapping[str, bool], shown: bool) -> str:
    chosen = [place for place, seen in places.items() if seen is shown]
    return "" if len(chosen) == len(places) else " " + " and ".join(chosen)


async def answer_format(client: ProbeClient) -> Observation:
    """What the engine's own parser wants of an answer, and of the prompt before it."""
    observation = await answers.answer_format(client)
    mark = await answers.prompt_mark(client)
    if not mark or not (fields := await tool_fields(client)):
        return observation
    prompt = await client.rendered_prompt(messages=[*HELLO, called(ID), returned(ID, MARK)], **fields)
    if prompt is None or mark in prompt.rpartition(MARK)[2]:
        return structs.replace(observation, facts={**observation.facts, "answers_results": True})
    facts = {**observation.facts, "answers_results": False}
    return Observation(Verdict.PARTLY, "the engine fails at answers that come right after a result", GO_ON_AFTER_RESULTS, facts)


async def reasoning(client: ProbeClient) -> Observation:
    """Reasoning works only if the model also sees its own thoughts of earlier turns."""
    observation = await answers.reasoning(client)
    try:
        earlier = await earlier_reasoning(client)
    except NoAnswer:
        return observation
    if observation.verdict is not Verdict.WORKS or earlier.verdict is not Verdict.DOES_NOT:
        return observation
    detail = f"{observation.detail}; the thoughts of earlier turns are not shown to the model"
    return structs.replace(observation, verdict=Verdict.PARTLY, detail=detail, remedy=earlier.remedy)
