"""What chat templates demand of messages. One table: the words in which a template rejects what it does not take, and the
facts that follow. The words are found in an engine's error, and in the text of the template itself."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from antiphon.patterns import late_pattern

PARALLEL = "parallel calls"
IDS = "call ids"
FIRST_MESSAGE = "first message"
IN_A_ROW = "user messages in a row"
SYSTEM = "system role"
TEXT_WITH_CALLS = "text beside calls"
EARLIER_REASONING = "earlier reasoning"
TOOLS = "tools"

# Capability → what Antiphon does where the template does not have it.
REMEDIES: Mapping[str, str] = {
    SYSTEM: "puts the instructions in front of the first user message",
    IN_A_ROW: "joins user messages that follow each other, and puts a short message between others that must not meet",
    FIRST_MESSAGE: "puts a short user message in front of a history that begins otherwise",
    IDS: "sends ids that the template accepts; clients keep theirs",
    PARALLEL: "sends each call in a message of its own, with its result after it",
    TEXT_WITH_CALLS: "sends the text as a message of its own, before that of the calls",
    EARLIER_REASONING: "leaves it out of the prompt, with a notice",
    TOOLS: "writes the tools, calls and results into the messages, and finds the calls in what the model writes",
}


class Demand(Struct, frozen=True):
    """The words of a template that rejects something, and what is learned from them."""

    capability: str
    words: re.Pattern[str]
    facts: Mapping[str, Any]


def _words(*alternatives: str) -> re.Pattern[str]:
    return late_pattern("|".join(alternatives), re.IGNORECASE)


DEMANDS: tuple[Demand, ...] = (
    # Gemma 2.
    Demand(
        SYSTEM,
        _words(r"system (?:role|messages?|prompts?) (?:(?:is|are) )?not supported", "does not support (?:a |the )?system"),
        {"takes_system_role": False},
    ),
    # Mistral, Gemma 2 and Llama 2. All of them count from a user message.
    Demand(IN_A_ROW, _words("roles must alternate"), {"alternates": True, "begins_with_user": True}),
    # Qwen3.5, Llama 3.x, and others in their own words.
    Demand(
        FIRST_MESSAGE,
        _words(
            "no user query found",
            "no first user message",
            r"(?:conversation|messages?|first message) (?:must|should) (?:start|begin|be) (?:with )?(?:a |from )?(?:the )?user",
        ),
        {"begins_with_user": True},
    ),
    # Mistral's templates, and its own tokenizer.
    Demand(IDS, _words(r"alphanumeric strings with length 9\b", r"a-z, A-Z, 0-9, with a length of 9\b"), {"call_id_length": 9}),
    # Llama 3.x.
    Demand(PARALLEL, _words("only supports single tool.?calls? at once"), {"takes_parallel_calls": False}),
    # gpt-oss. Without the text, there is only the thought beside the calls.
    Demand(
        TEXT_WITH_CALLS,
        _words("both content and thinking in an assistant message with tool calls"),
        {"shows_text_with_calls": False},
    ),
)


# ---- the text of a template ------------------------------------------------------------------------------------------

COMMENT = late_pattern(r"\{#.*?#\}", re.DOTALL)
CODE = late_pattern(r"\{%(.*?)%\}|\{\{(.*?)\}\}", re.DOTALL)
PRINTED = late_pattern(r"\{\{(.*?)\}\}", re.DOTALL)
STRING = late_pattern(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
VARIABLE_TOOLS = late_pattern(r"(?<![.\w])tools\b")
# Under which names templates look for the thought of a message.
THOUGHT_MEMBER = late_pattern(r"""[.'"](?:reasoning_content|reasoning|thinking)\b""")
# The text of a message is cut at the end of its thought.
CUTS_THOUGHT = late_pattern(r"split\(\s*(['\"])</think>\1")
ROLE = late_pattern(r"\brole\b")


def facts_in_text(template: str) -> dict[str, Any]:
    """The facts that the text of a template shows. It is the weakest source: a branch of it may never be taken."""
    text = COMMENT.sub("", template)
    facts: dict[str, Any] = {}
    for demand in DEMANDS:
        if demand.words.search(text):
            facts |= demand.facts
    if _lacks_tools(text):
        facts["shows_tools"] = False
    if not ROLE.search("".join(PRINTED.findall(text))) and "system" not in text:
        facts["takes_system_role"] = False
    if not THOUGHT_MEMBER.search(_code(text)):
        # Then a thought is shown only as text, unless that is cut off too.
        facts |= {"reasoning_member": None, "shows_reasoning": CUTS_THOUGHT.search(text) is None}
    return facts


def words_in_text(template: str) -> list[str]:
    """The words of a template that make a demand."""
    text = COMMENT.sub("", template)
    return [match.group() for demand in DEMANDS if (match := demand.words.search(text)) is not None]


def _code(text: str) -> str:
    return "\n".join(statement + expression for statement, expression in CODE.findall(text))


def _lacks_tools(text: str) -> bool:
    """The template shows no tools, or none of the calls."""
    code = _code(text)
    return not VARIABLE_TOOLS.search(STRING.sub("''", code)) or "tool_calls" not in code
