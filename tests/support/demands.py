"""What chat templates demand, one function per demand: each says in which words a template with it rejects the messages."""

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from antiphon.core.knowledge.dialect import Dialect

Message = dict[str, Any]
Messages = list[Message]


def complaint(messages: Messages, dialect: Dialect) -> str | None:
    """What the template of this model says about the messages; None if it takes them."""
    found = (demand(messages, dialect) for demand in DEMANDS)
    return next((words for words in found if words), None)


def _rest(messages: Messages) -> Messages:
    return messages[1:] if messages and messages[0]["role"] == "system" else messages


def takes_no_system(messages: Messages, dialect: Dialect) -> str | None:
    if not dialect.takes_system_role and any(message["role"] == "system" for message in messages):
        return "System role not supported"
    return None


def begins_with_user(messages: Messages, dialect: Dialect) -> str | None:
    rest = _rest(messages)
    if dialect.begins_with_user and (not rest or rest[0]["role"] != "user"):
        return "The first message must be the user's"
    return None


def has_a_question(messages: Messages, dialect: Dialect) -> str | None:
    """A user message that looks like the result of a call does not count."""
    texts = [_text(message).strip() for message in messages if message["role"] == "user"]
    if dialect.begins_with_user and all(re.fullmatch("<tool_response>.*</tool_response>", text, re.DOTALL) for text in texts):
        return "No user query found in messages."
    return None


def alternates_beside_calls(messages: Messages, dialect: Dialect) -> str | None:
    """Calls and results do not count."""
    counted = [message["role"] for message in _rest(messages) if message["role"] != "tool" and not message.get("tool_calls")]
    return _alternation(counted) if dialect.alternates else None


def alternates_with_calls(messages: Messages, dialect: Dialect) -> str | None:
    """Calls count as the assistant's messages, and the results of one message as one of the user's."""
    groups = groupby(_rest(messages), key=lambda message: message["role"] == "tool")
    counted = [role for is_result, group in groups for role in (["user"] if is_result else [each["role"] for each in group])]
    return _alternation(counted) if dialect.alternates else None


def _alternation(roles: list[str]) -> str | None:
    expected = (["user", "assistant"] * len(roles))[: len(roles)]
    return None if roles == expected else f"Conversation roles must alternate user/assistant/user/assistant/..., not {roles}"


def ends_with_no_result(messages: Messages, dialect: Dialect) -> str | None:
    if not dialect.answers_results and messages[-1]["role"] == "tool":
        return "The model produced output that does not match the expected peg-native format"
    return None


def has_ids_of_one_length(messages: Messages, dialect: Dialect) -> str | None:
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    ids += [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    length = dialect.call_id_length
    if length is not None and not all(re.fullmatch(f"[0-9A-Za-z]{{{length}}}", id) for id in ids):
        return f"Tool call IDs should be alphanumeric strings with length {length}!"
    return None


def has_single_calls(messages: Messages, dialect: Dialect) -> str | None:
    if not dialect.takes_parallel_calls and any(len(message.get("tool_calls", ())) > 1 for message in messages):
        return "This model only supports single tool-calls at once!"
    return None


def has_text_or_calls(messages: Messages, dialect: Dialect) -> str | None:
    if not dialect.shows_text_with_calls and any(message["content"] and message.get("tool_calls") for message in messages):
        return "Assistant message must have either content or tool_calls, but not both."
    return None


def has_no_calls(messages: Messages, dialect: Dialect) -> str | None:
    if not dialect.shows_tools and any(message["role"] == "tool" or message.get("tool_calls") for message in messages):
        return "Only user and assistant roles are supported!"
    return None


def has_results_after_calls(messages: Messages, dialect: Dialect) -> str | None:
    owed: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not owed or owed.pop(0) != message["tool_call_id"]:
                return "Message has tool role, but there was no previous assistant message with a tool call!"
        elif owed:
            return "Not the same number of function calls and responses"
        owed = owed or [call["id"] for call in message.get("tool_calls", ())]
    return "Not the same number of function calls and responses" if owed else None


def has_thoughts_where_they_are_shown(messages: Messages, dialect: Dialect) -> str | None:
    members = {member for message in messages for member in ("reasoning", "reasoning_content") if member in message}
    allowed = {dialect.reasoning_member} if dialect.shows_reasoning else set()
    return f"{members - allowed} is not shown" if members - allowed else None


def has_something_in_every_message(messages: Messages, dialect: Dialect) -> str | None:
    if any(message["role"] == "assistant" and not message["content"] and not message.get("tool_calls") for message in messages):
        return "Assistant message must have a string or a list of chunks in content or a list of tool calls."
    return None


DEMANDS: tuple[Callable[[Messages, Dialect], str | None], ...] = (
    takes_no_system,
    begins_with_user,
    has_a_question,
    alternates_beside_calls,
    alternates_with_calls,
    ends_with_no_result,
    has_ids_of_one_length,
    has_single_calls,
    has_text_or_calls,
    has_no_calls,
    has_results_after_calls,
    has_thoughts_where_they_are_shown,
    has_something_in_every_message,
)


# ---- what a template can show of messages ------------------------------------------------------------------------------


def shown(messages: Messages) -> str:
    """Everything that the messages say, in order."""
    return "".join(part for message in messages for part in _said(message))


def _said(message: Message) -> list[str]:
    arguments = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
    return [message.get("reasoning_content", ""), message.get("reasoning", ""), _text(message), *arguments]


def _text(message: Message) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part["type"] == "text" else part["image_url"]["url"] for part in content)
