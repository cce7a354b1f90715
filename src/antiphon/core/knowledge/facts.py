"""The facts about a model on its engine, in words: what the gateway goes by when it asks."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from antiphon.core.knowledge.dialect import Dialect

# Where a fact comes from: what is known of all engines of the kind, what a probe has shown, what the text of the chat template
# says, what a request has shown, or what comes with weights that Antiphon knows. "assumed": its probe has not ended.
FactSource = Literal["dialect", "probed", "template", "learned", "setting", "assumed"]


class Fact(NamedTuple):
    """A member of a dialect, and how it is known."""

    name: str
    value: Any
    source: FactSource

    @property
    def meaning(self) -> str:
        """What the fact means, as a sentence without its full stop."""
        words = WORDS[self.name]
        if isinstance(words, tuple):
            return words[not self.value]
        if not self.value:
            return WORDS_FOR_NONE[self.name]
        if self.name == "efforts":
            return words.format(_efforts(self.value))
        # Members of a request, as they are in it.
        return words.format(msgspec.json.encode(self.value).decode() if isinstance(self.value, Mapping) else self.value)


def _efforts(sent: Mapping[str, str]) -> str:
    """`low, medium, xhigh as max`"""
    return ", ".join(effort if effort == name else f"{effort} as {name}" for effort, name in sent.items())


# Fact → what it means. Of two texts, the first is for a fact that is true.
WORDS: Mapping[str, str | tuple[str, str]] = {
    "reasoning_member": "earlier reasoning is sent as `{}`",
    "continues_last_message": (
        "the engine continues a last assistant message",
        "the engine begins a new message after a last assistant message",
    ),
    "takes_system_role": ("the template has a system role", "the template has no system role: its text goes to the first user"),
    "alternates": ("user and assistant have to alternate", "messages may come in any order"),
    "begins_with_user": ("the first message has to be a user's", "any message may be the first"),
    "answers_results": ("the model answers to results of tools", "what follows a result of a tool is not shown to the model"),
    "call_id_length": "ids of calls have exactly {} characters",
    "takes_parallel_calls": ("a message may have several calls", "a message has one call at most"),
    "shows_text_with_calls": ("text beside calls is shown to the model", "text beside calls is not shown to the model"),
    "shows_reasoning": ("earlier reasoning is shown to the model", "earlier reasoning is not shown to the model"),
    "shows_tools": ("the template shows tools to the model", "tools are written into the prompt by Antiphon"),
    "reads_calls": ("the engine finds the calls in an answer", "Antiphon finds the calls in an answer"),
    "enforces_required": ("the engine makes sure of a required call", "Antiphon makes sure of a required call"),
    "enforces_named": ("the engine makes sure of a named call", "Antiphon makes sure of a named call"),
    "garbles_calls": ("the model was seen to write calls that are none", "the model writes proper calls"),
    "announces_calls": (
        "the model was seen to announce calls and to make none",
        "the model was not seen to announce calls and to make none",
    ),
    "takes_response_format": ("the engine takes `response_format`", "the engine rejects `response_format`"),
    "constraint_member": "a constraint is sent as `{}`",
    "constrains_json": ("the engine constrains answers to a JSON schema", "Antiphon checks JSON schemas after the answer"),
    "constrains_calls": ("the engine constrains arguments to their schema", "Antiphon checks arguments after the answer"),
    "constrains_json_with_tools": (
        "answers are constrained beside tools too",
        "an answer is constrained only without tools",
    ),
    "calls_when_constrained": ("a constrained answer may be a call", "a constrained answer cannot be a call"),
    "answer_prefix": "the engine wants an answer to begin with {!r}",
    "spells_prefix": ("Antiphon makes an answer begin so", "the model begins its answers so by itself"),
    "shows_schema": ("the engine shows a JSON schema to the model", "Antiphon puts a JSON schema into the prompt"),
    "max_tokens_member": "the limit of an answer is sent as `{}`",
    "efforts": "these efforts of reasoning are sent: {}",
    "no_thinking": "thinking is switched off by {}",
    "thinks": ("the model thinks if it can", "thinking is switched off"),
    "takes_logprobs_with_tools": ("logprobs are taken beside tools", "logprobs are rejected beside tools"),
    "takes_stream_options": ("the engine takes `stream_options`", "the engine rejects `stream_options`"),
    "takes_top_k": ("the engine takes `top_k`", "the engine takes no `top_k`"),
    "extra": "always sent: {}",
    "constrained_extra": "sent with a constrained answer: {}",
    "parses_answers": ("the engine parses the model's answers", "the engine's parser fails on the model's answers: it is off"),
    "unparsed_extra": "the engine's parser is switched off by {}",
    "cache_key_member": "the key of a conversation is sent as `{}`",
    "reports_progress": ("the engine reports how far it has read a prompt", "the engine does not report how it reads a prompt"),
    "opens_thought": ("an answer begins inside a thought", "an answer does not begin inside a thought"),
    "returns_logprobs": ("the engine returns logprobs", "the engine returns no logprobs"),
    "shows_images": ("images are shown to the model", "images are not shown to the model"),
    "reports_usage": ("the engine reports usage in a stream", "Antiphon estimates usage"),
    "keeps_connections": ("the engine keeps its connections", "the engine closes a connection after each stream"),
    "loads_on_demand": ("the engine loads a model when it is asked for", "the engine has its model loaded"),
}
# Where there is no value.
WORDS_FOR_NONE: Mapping[str, str] = {
    "reasoning_member": "earlier reasoning is sent as <think>…</think>",
    "call_id_length": "ids of calls may have any length",
    "answer_prefix": "an answer may begin with anything",
    "efforts": "no effort of reasoning is sent",
    "no_thinking": "thinking cannot be switched off",
    "extra": "nothing is always sent",
    "constrained_extra": "nothing is sent with a constrained answer",
    "unparsed_extra": "the engine's parser cannot be switched off",
    "cache_key_member": "no key of a conversation is sent",
}
# What the gateway would assume of an engine that it knows nothing of.
USUAL = Dialect(name="")


def is_unusual(name: str, value: Any) -> bool:
    """The gateway would not have assumed this value."""
    return bool(value != getattr(USUAL, name))
