"""What chat templates demand of messages, one rule for each demand.

A draft writes its messages in one form: a leading system message; assistant messages with reasoning_content, text and calls;
and after these the result of each call, in the order of the calls. The rules rewrite them, in the order of the table, for the
model that is asked. What becomes of a message depends on itself, its results and what is before it, never on what comes later.
So the messages of a history are the beginning of those of a longer one, and the engine's prefix cache stays valid.
"""

import string
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import groupby
from operator import attrgetter

from msgspec import UNSET, Struct, structs

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.toolbox.prompt_texts import RESULT_BEGINS, RESULT_ENDS, call_to_text, result_to_text
from antiphon.wire.chat import ChatMessage, Part

# ---- Ids of calls for chat templates that take only ids of one length ------------------------------------------------


class ShortIds:
    """Ids of a fixed length, for ids of any form. Two ids never become one, unless there are more of them than such ids.

    An id keeps what it became when it was first seen: what comes later must not change earlier messages. So an id that has the
    right form stays as it is, unless an earlier one has become just that.
    """

    LETTERS = string.digits + string.ascii_letters

    def __init__(self, length: int) -> None:
        self._length = length
        self._count = len(self.LETTERS) ** length
        self._short: dict[str, str] = {}
        self._taken: set[str] = set()

    def __getitem__(self, id: str) -> str:
        short = self._short.get(id)
        if short is None:
            short = self._short[id] = id if self._is_short(id) and id not in self._taken else self._free(id)
            self._taken.add(short)
        return short

    def _is_short(self, id: str) -> bool:
        return len(id) == self._length and id.isascii() and id.isalnum()

    def _free(self, id: str) -> str:
        number = int.from_bytes(sha256(id.encode(errors="surrogatepass")).digest())
        while (short := self._written(number)) in self._taken and len(self._taken) < self._count:
            number += 1
        return short

    def _written(self, number: int) -> str:
        """The last digits of the number."""
        digits = []
        for _ in range(self._length):
            number, digit = divmod(number, len(self.LETTERS))
            digits.append(self.LETTERS[digit])
        return "".join(reversed(digits))


Messages = list[ChatMessage]
# Most rules change nothing in most prompts, which is seen without a step of Python for each message.
_content_of, _thought_of = attrgetter("content"), attrgetter("reasoning_content")
# Messages that nobody wrote. They are short and say nothing, because the model takes them for a part of the conversation.
BEGIN = "Begin."
GO_ON = "Go on."
NOTED = "Noted."
# In place of an empty text. A template that trims its messages shows nothing.
NOTHING = " "

REASONING_LEFT_OUT = "reasoning of earlier turns was left out: the chat template of this model does not show it"


class Rule(Struct, frozen=True):
    """`fact` is the member of the dialect that it follows from, `reason` says which templates need it."""

    fact: str
    reason: str
    applies: Callable[[Dialect], bool]
    rewrite: Callable[[Messages, Dialect], Messages]
    # For the client, where the rule has changed anything.
    notice: str | None = None
    # It changes nothing but what the model wrote, and the results of its calls.
    of_answers: bool = False


def apply_template_rules(messages: Messages, dialect: Dialect, *, has_answers: bool = True) -> tuple[Messages, list[str]]:
    """The messages as the model's chat template takes them, and notices about what it cannot show. `has_answers`: some of them
    may be the model's."""
    notices: list[str] = []
    known = _rules.get(id(dialect))
    for rule in known[1] if known is not None and known[0] is dialect else _rules_for(dialect):
        if rule.of_answers and not has_answers:
            continue
        before, messages = messages, rule.rewrite(messages, dialect)
        if rule.notice is not None and messages != before:
            notices.append(rule.notice)
    return messages, notices


# The rules of the dialects that were used last, by identity: a dialect never changes, and has too many members to be hashed.
MOST_DIALECTS = 256
_rules: dict[int, tuple[Dialect, tuple[Rule, ...]]] = {}


def _rules_for(dialect: Dialect) -> tuple[Rule, ...]:
    """Of a dialect that is not known."""
    if len(_rules) >= MOST_DIALECTS:
        _rules.clear()
    rules = tuple(rule for rule in RULES if rule.applies(dialect))
    _rules[id(dialect)] = (dialect, rules)
    return rules


# ---- thoughts --------------------------------------------------------------------------------------------------------


def _without_thoughts(messages: Messages, dialect: Dialect) -> Messages:
    return [structs.replace(each, reasoning_content=UNSET) if each.reasoning_content else each for each in messages]


def _with_thoughts_renamed(messages: Messages, dialect: Dialect) -> Messages:
    return [
        structs.replace(each, reasoning=each.reasoning_content, reasoning_content=UNSET) if each.reasoning_content else each
        for each in messages
    ]


def _with_thoughts_in_tags(messages: Messages, dialect: Dialect) -> Messages:
    if not any(map(_thought_of, messages)):
        return messages
    return [
        structs.replace(each, content=f"{_in_tags(thought)}{each.content}", reasoning_content=UNSET)
        if (thought := each.reasoning_content)
        else each
        for each in messages
    ]


def _in_tags(thought: str) -> str:
    """As the model writes it. A thought that was read between tags has the line breaks beside them."""
    return "<think>\n{}\n</think>\n\n".format(thought.strip("\n"))


# ---- calls and results -----------------------------------------------------------------------------------------------


def _with_calls_in_words(messages: Messages, dialect: Dialect) -> Messages:
    written: Messages = []
    for is_result, group in groupby(messages, key=lambda message: message.role == "tool"):
        if is_result:
            written.append(ChatMessage(role="user", content="\n".join(result_to_text(str(each.content)) for each in group)))
        else:
            written += map(_call_in_words, group)
    return written


def _call_in_words(message: ChatMessage) -> ChatMessage:
    if not message.tool_calls:
        return message
    words = [call_to_text(call.function.name, call.function.arguments) for call in message.tool_calls]
    texts = [message.content, *words] if message.content else words
    return structs.replace(message, content="\n\n".join(map(str, texts)), tool_calls=UNSET)


def _with_short_ids(messages: Messages, dialect: Dialect) -> Messages:
    ids = ShortIds(dialect.call_id_length or 0)
    return [_with_ids(message, ids) for message in messages]


def _with_ids(message: ChatMessage, ids: ShortIds) -> ChatMessage:
    if message.tool_calls:
        return structs.replace(message, tool_calls=[structs.replace(call, id=ids[call.id]) for call in message.tool_calls])
    if message.tool_call_id is not UNSET:
        return structs.replace(message, tool_call_id=ids[message.tool_call_id])
    return message


def _with_single_calls(messages: Messages, dialect: Dialect) -> Messages:
    single: Messages = []
    coming = iter(messages)
    for message in coming:
        if message.tool_calls and len(message.tool_calls) > 1:
            single += _one_by_one(message, coming)
        else:
            single.append(message)
    return single


def _one_by_one(message: ChatMessage, results: Iterator[ChatMessage]) -> Iterator[ChatMessage]:
    """Each call with its result. The first one keeps the text and the thought."""
    for call in message.tool_calls or ():
        yield structs.replace(message, tool_calls=[call])
        yield next(results)
        message = ChatMessage(role="assistant", content="")


def _with_texts_before_calls(messages: Messages, dialect: Dialect) -> Messages:
    """A thought that has a member stays with the calls: templates that show it there do not show it with a text."""
    apart: Messages = []
    for message in messages:
        if message.tool_calls and message.content:
            apart.append(ChatMessage(role="assistant", content=message.content))
            message = structs.replace(message, content="")
        apart.append(message)
    return apart


# ---- who speaks ------------------------------------------------------------------------------------------------------


def _without_empty_texts(messages: Messages, dialect: Dialect) -> Messages:
    if all(map(_content_of, messages)):
        return messages
    return [
        structs.replace(each, content=NOTHING)
        if not each.content and each.role == "assistant" and not each.tool_calls
        else each
        for each in messages
    ]


def _with_system_in_user(messages: Messages, dialect: Dialect) -> Messages:
    if not messages or messages[0].role != "system":
        return messages
    system, *rest = messages
    if not rest or rest[0].role != "user":
        return [ChatMessage(role="user", content=system.content), *rest]
    first, *rest = rest
    if isinstance(first.content, list):
        return [structs.replace(first, content=[*_to_parts(system), *first.content]), *rest]
    return [structs.replace(first, content=f"{system.content}\n\n{first.content}"), *rest]


def _begun_by_user(messages: Messages, dialect: Dialect) -> Messages:
    """Decided by the first message alone: a user message that comes later must not change the beginning."""
    at = 1 if messages and messages[0].role == "system" else 0
    if at < len(messages) and messages[at].role == "user" and not _is_result(messages[at]):
        return messages
    return [*messages[:at], ChatMessage(role="user", content=BEGIN), *messages[at:]]


def _is_result(message: ChatMessage) -> bool:
    """The template of Qwen3.5 takes such a user message for the result of a call."""
    text = "".join(part.get("text", "") for part in _to_parts(message)).strip()
    return text.startswith(RESULT_BEGINS) and text.endswith(RESULT_ENDS)


def _with_users_after_results(messages: Messages, dialect: Dialect) -> Messages:
    """After all of them, not only after the last: what is sent now is the beginning of what is sent later."""
    go_on, noted = ChatMessage(role="user", content=GO_ON), ChatMessage(role="assistant", content=NOTED)
    # Where roles alternate, the other filler comes before it.
    followers = (go_on, noted) if dialect.alternates else (go_on,)
    followed: Messages = []
    for message, after in zip(messages, [*messages[1:], None], strict=True):
        followed.append(message)
        if message.role == "tool" and (after is None or after.role != "tool") and after not in followers:
            followed.append(go_on)
    return followed


def _alternating(messages: Messages, dialect: Dialect) -> Messages:
    """Whatever the template counts: some count calls and results, most do not."""
    alternating: Messages = []
    gone_on = 0
    for message in _with_users_joined(messages):
        before = alternating[-1].role if alternating else ""
        if (before, message.role) == ("assistant", "assistant"):
            gone_on += 1
            # Each is another one: the templates of Mistral show the tools at every user message that is equal to the last.
            alternating.append(ChatMessage(role="user", content=GO_ON if gone_on == 1 else f"{GO_ON} ({gone_on})"))
        elif (before, message.role) == ("tool", "user"):
            alternating.append(ChatMessage(role="assistant", content=NOTED))
        alternating.append(message)
    return alternating


def _with_users_joined(messages: Messages) -> Messages:
    joined: Messages = []
    for role, group in groupby(messages, key=lambda message: message.role):
        same = list(group)
        joined += [_users_to_one(same)] if role == "user" and len(same) > 1 else same
    return joined


def _users_to_one(messages: Messages) -> ChatMessage:
    """All text, up to the first part that is not, becomes one text."""
    texts: list[str] = []
    for message in messages:
        if not isinstance(message.content, str):
            break
        texts.append(message.content)
    text = "\n".join(texts)
    if len(texts) == len(messages):
        return ChatMessage(role="user", content=text)
    parts = [part for message in messages[len(texts) :] for part in _to_parts(message)]
    return ChatMessage(role="user", content=[{"type": "text", "text": text}, *parts] if texts else parts)


def _to_parts(message: ChatMessage) -> list[Part]:
    content = message.content
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _ended_by_user(messages: Messages, dialect: Dialect) -> Messages:
    if messages and messages[-1].role == "assistant":
        return [*messages, ChatMessage(role="user", content=GO_ON)]
    return messages


# The order counts: what a rule makes must satisfy those before it, too.
RULES: tuple[Rule, ...] = (
    Rule(
        "shows_reasoning",
        "QwQ, Nemotron Nano v2, DeepSeek R1: earlier thoughts are not shown, or are cut out of the text",
        lambda dialect: not dialect.shows_reasoning,
        _without_thoughts,
        REASONING_LEFT_OUT,
        of_answers=True,
    ),
    Rule(
        "shows_tools",
        "Gemma 2, Phi 3.5, SmolLM2: no tools, calls or results are shown",
        lambda dialect: not dialect.shows_tools,
        _with_calls_in_words,
        of_answers=True,
    ),
    Rule(
        "reasoning_member",
        "vLLM: earlier thoughts are read from `reasoning`",
        lambda dialect: dialect.reasoning_member == "reasoning",
        _with_thoughts_renamed,
        of_answers=True,
    ),
    Rule(
        "reasoning_member",
        "SmolLM3, Qwen2.5, Llama 3.x: no member for thoughts; as a part of the text they are shown",
        lambda dialect: dialect.reasoning_member is None,
        _with_thoughts_in_tags,
        of_answers=True,
    ),
    Rule(
        "call_id_length",
        "Mistral Nemo, Mistral Small 3.2: other ids than 9 letters and digits are rejected",
        lambda dialect: dialect.call_id_length is not None,
        _with_short_ids,
        of_answers=True,
    ),
    Rule(
        "takes_parallel_calls",
        "Llama 3.x rejects a message with two calls; gpt-oss shows only the first of them",
        lambda dialect: not dialect.takes_parallel_calls,
        _with_single_calls,
        of_answers=True,
    ),
    Rule(
        "shows_text_with_calls",
        "Llama 3.x, Hermes, gpt-oss, Mistral Nemo show only the calls; DeepSeek R1 only the text",
        lambda dialect: not dialect.shows_text_with_calls,
        _with_texts_before_calls,
        of_answers=True,
    ),
    Rule(
        "",
        "Ministral 3 rejects an empty assistant message, and DeepSeek R1 writes the marks of a call for it",
        lambda dialect: True,
        _without_empty_texts,
        of_answers=True,
    ),
    Rule(
        "takes_system_role",
        "Gemma 2: a system message is rejected",
        lambda dialect: not dialect.takes_system_role,
        _with_system_in_user,
    ),
    Rule(
        "begins_with_user",
        "Qwen3.5 rejects messages without a user's; Llama 3.x takes the first one for it; and so do those that alternate",
        lambda dialect: dialect.begins_with_user or dialect.alternates,
        _begun_by_user,
    ),
    Rule(
        "answers_results",
        "DeepSeek V3.2 begins no message after a result, which llama.cpp's parser wants",
        lambda dialect: not dialect.answers_results,
        _with_users_after_results,
    ),
    Rule(
        "alternates",
        "Mistral Nemo, Mistral Small 3.2, Ministral 3, Gemma 2: other orders are rejected",
        lambda dialect: dialect.alternates,
        _alternating,
    ),
    Rule(
        "continues_last_message",
        "llama.cpp continues a last message of the assistant instead of beginning a new one",
        lambda dialect: dialect.continues_last_message,
        _ended_by_user,
    ),
)
