"""What the battery cannot have of llama.cpp: each limit names the code of llama.cpp that sets it."""

from dataclasses import dataclass

import pytest

from support.template_battery import (
    CONVERSATIONS,
    Cell,
    Client,
    json_schema_with_tools,
    offered_tools,
    text,
    thirty_rounds,
    truncation,
)


@dataclass(frozen=True, slots=True)
class Limit:
    # Words of the failure.
    words: str
    # Where in llama.cpp's sources.
    code: str


# A model that was trained for the template writes these marks, random weights do not. Where the answer is constrained, the
# grammar has them.
_UNMARKED = "does not match the expected peg-native format"
_GPT_OSS = Limit(_UNMARKED, "common/parsers/gpt-oss.cpp, common_chat_params_init_gpt_oss: an answer begins with a channel")
_FUNCTIONARY = Limit(
    _UNMARKED, "common/parsers/functionary-v3-2.cpp, common_chat_params_init_functionary_v3_2: a text begins with its recipient"
)
_FREE_TEXT = (text, offered_tools, truncation, *CONVERSATIONS)

LIMITS: dict[tuple[str, Cell], Limit] = {
    **{("like gpt-oss's", cell): _GPT_OSS for cell in _FREE_TEXT},
    **{("like Functionary's", cell): _FUNCTIONARY for cell in (*_FREE_TEXT, json_schema_with_tools, thirty_rounds)},
}


async def expect(template: str, cell: Cell, client: Client) -> None:
    """The cell passes, or fails exactly as its limit says."""
    limit = LIMITS.get((template, cell))
    if limit is None:
        await cell(client)
        return
    with pytest.raises(AssertionError, match=limit.words):
        await cell(client)
