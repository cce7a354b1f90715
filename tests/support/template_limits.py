"""What the battery cannot have of llama.cpp: each limit names the code of llama.cpp that sets it."""

from dataclasses import dataclass

import pytest

from support.template_battery import (
    Cell,
    Client,
    call_first,
    continued_response,
    many_demands,
    no_user,
    parallel_calls,
    required_call,
    thirty_rounds,
)


@dataclass(frozen=True, slots=True)
class Limit:
    # Words of the failure, as a pattern.
    words: str
    # Where in llama.cpp's sources.
    code: str


# DeepSeek V3.2 goes on after a result without beginning a message.
_NO_ASSISTANT = Limit(
    "does not match the expected peg-native format|Failed to initialize samplers",
    "common/parsers/deepseek.cpp, common_chat_params_init_deepseek_v3_2: the prompt ends with the mark of the assistant",
)
_ENDS_WITH_A_RESULT = (required_call, parallel_calls, call_first, no_user, many_demands, continued_response, thirty_rounds)

LIMITS: dict[tuple[str, Cell], Limit] = {("like DeepSeek V3.2's", cell): _NO_ASSISTANT for cell in _ENDS_WITH_A_RESULT}


async def expect(template: str, cell: Cell, client: Client) -> None:
    """The cell passes, or fails exactly as its limit says."""
    limit = LIMITS.get((template, cell))
    if limit is None:
        await cell(client)
        return
    with pytest.raises(AssertionError, match=limit.words):
        await cell(client)
