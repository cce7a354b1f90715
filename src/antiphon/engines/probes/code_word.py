"""Whether a model sees the tools of a request, by what it writes: it is asked for a word that only a tool's description has.

A word that nobody can guess is the proof, wherever it comes: in a call, in the text, or in a thought. A call alone proves
nothing, because some engines constrain an answer to one. No schema has the word, so no grammar can spell it out. A call of
another tool is only what a model makes up that was asked to call one.
"""

from enum import Enum
from typing import Any

from antiphon.engines.probes.client import Answer, ProbeClient
from antiphon.engines.probes.questions import CODE_WORD, CODE_WORD_TOOL, CODE_WORD_TOOLS, FOR_CODE_WORD

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
