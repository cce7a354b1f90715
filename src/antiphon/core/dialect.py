"""What is particular about an engine, as plain facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that tells an engine: a GET of `path` answers JSON that has `key` (slashes lead inwards), equal to `value`."""

    path: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where an engine tells a fact of a model: `key` in the answer to GET `path`, or to a POST of {`asks`: the model's id}.

    In the key, {at} is the place of the model in the list of models, and a step may have a * for what varies.
    """

    path: str
    key: str
    asks: str | None = None


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The engine's endpoint that turns text into tokens: POST {text_key: text} to `path`, and count `tokens_key`."""

    path: str
    text_key: str
    tokens_key: str


@dataclass(frozen=True, slots=True)
class Template:
    """The engine's endpoint that shows the prompt of a chat request: POST its messages and tools to `path`."""

    path: str
    prompt_key: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's facts. The defaults are the plain dialect: what servers of the Chat Completions API commonly take."""

    name: str
    signs: tuple[Sign, ...] = ()
    # The member of an assistant message that carries earlier reasoning back; without one it goes in as <think>…</think>.
    reasoning_member: Literal["reasoning_content", "reasoning"] | None = None
    # Requested effort → what the engine takes. An effort that is missing here is sent as "medium".
    efforts: Mapping[str, str] = field(
        default_factory=lambda: {
            "none": "low",
            "minimal": "low",
            "low": "low",
            "medium": "medium",
            "high": "high",
            "xhigh": "high",
            "max": "high",
        }
    )
    max_tokens_member: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    # The template shows the tools to the model, and earlier calls with their results. Otherwise all three are written into the
    # messages as text.
    shows_tools: bool = True
    # Takes "auto", and finds the calls in what its model writes. Otherwise "none" is sent, and they are found here.
    reads_calls: bool = True
    # Sees to it that a call is made where tool_choice is "required", and where it names a function.
    enforces_required: bool = False
    enforces_named: bool = False
    # False: `response_format` is refused.
    takes_response_format: bool = True
    # Holds an answer to a JSON schema, and a strict function to its parameters. Otherwise they are checked here.
    constrains_json: bool = False
    constrains_calls: bool = False
    # Holds an answer to its schema also where tools are offered. Otherwise only one of the two is sent.
    constrains_json_with_tools: bool = True
    takes_logprobs_with_tools: bool = True
    # Shows a JSON schema to the model by itself. Otherwise it is put into the prompt too.
    shows_schema: bool = False
    # Goes on writing the last assistant message instead of beginning a new one.
    continues_last_message: bool = False
    # False: templates without a system role; the text goes in front of the first user message.
    takes_system_role: bool = True
    # False: templates that want user and assistant to alternate; user messages in a row become one.
    takes_users_in_a_row: bool = True
    # The chat template opens the thought: the text of an answer begins inside it, with no tag.
    opens_thought: bool = False
    # Reports usage in a stream. Otherwise it is estimated.
    reports_usage: bool = True
    # False: `stream_options` is rejected.
    takes_stream_options: bool = True
    # Loads a model when it is asked for: it is not asked for anything that nobody wanted.
    loads_on_demand: bool = False
    # False: closes a connection behind each stream, whatever it has promised; it is not used again.
    keeps_connections: bool = True
    tokenizer: Tokenizer | None = None
    # Where the context window of a model is told, the better source first; and whether it sees images.
    window: tuple[Lookup, ...] = ()
    vision: tuple[Lookup, ...] = ()
    # Where the engine tells its own version.
    version: tuple[Lookup, ...] = ()
    # What probes go by: where the prompt is shown, the field that takes a GBNF grammar, and where the engine tells by itself
    # whether the template of a model has tools, several calls in a message, and thoughts.
    template: Template | None = None
    grammar_member: str | None = None
    tells_tools: tuple[Lookup, ...] = ()
    tells_parallel_calls: tuple[Lookup, ...] = ()
    tells_reasoning: tuple[Lookup, ...] = ()
    # Capability → what would mend it on the engine's side: a flag, mostly.
    advice: Mapping[str, str] = field(default_factory=dict)
    # Fields that are always sent, and those that are sent where the answer is constrained.
    extra: Mapping[str, Any] = field(default_factory=dict)
    constrained_extra: Mapping[str, Any] = field(default_factory=dict)
