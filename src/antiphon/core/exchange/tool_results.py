"""How much of a tool's result a model gets to read: as much as its context has room for."""

from msgspec import structs

from antiphon.core.prompt.prompt_length import prompt_text, tokens_by_length
from antiphon.core.toolbox.tools import ToolResult
from antiphon.quantities import counted
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import Usage

# Of a model whose context window is not known, in characters.
MOST_CHARACTERS = 100_000
# However little room there is: less would say nothing.
LEAST_CHARACTERS = 1_000
# Results are often JSON, numbers and addresses, which take more tokens than prose.
CHARACTERS_PER_TOKEN = 3
# Of a window, what is left for the answer, unless the request says how long that may be.
ANSWER_SHARE = 4
LEFT_OUT = "\n[{more} of this result were left out here: there is no room for more.]"


def tokens_used(chat: ChatRequest, written: str, usage: Usage | None) -> int:
    """How much of its context a model has used for an answer: as its engine reports it, or by length."""
    if usage is not None:
        return usage.input_tokens + usage.output_tokens
    return tokens_by_length(prompt_text(chat)) + tokens_by_length(written)


def room_for_results(window: int | None, used: int, answer: int | None, calls: int) -> int:
    """How many characters the result of each of these calls may have. All of them together take half of what is left of the
    window, because the model may call again. `used`: tokens. `answer`: the most tokens that the answer may have."""
    if window is None:
        return MOST_CHARACTERS
    kept = min(answer, window // 2) if answer is not None else window // ANSWER_SHARE
    left = max(0, window - used - kept) * CHARACTERS_PER_TOKEN
    return max(LEAST_CHARACTERS, left // 2 // calls)


def bounded(result: ToolResult, room: int) -> ToolResult:
    """The result, with no more text than there is room for. What was cut off is said in its place."""
    more = len(result.output) - room
    if more <= 0:
        return result
    return structs.replace(result, output=result.output[:room] + LEFT_OUT.format(more=counted(more, "character")))
