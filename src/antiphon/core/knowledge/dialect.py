"""What is particular about an engine, as plain facts; and the efforts of reasoning that engines know."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import Struct, field


class Sign(Struct, frozen=True):
    """Identifies an engine: a GET of `path` answers JSON that has `key` (slashes lead inwards), equal to `value` if given."""

    path: str
    key: str
    value: str | None = None


class Lookup(Struct, frozen=True):
    """Where an engine reports a fact about a model: `key` in the answer to GET `path`, or to a POST of {`asks`: its id}.

    In the key, {at} is the model's index in the list of models, and a step may have a * for what varies.
    """

    path: str
    key: str
    asks: str | None = None


class Tokenizer(Struct, frozen=True):
    """The endpoint that turns text into tokens: POST {text_key: text} to `path`, and count `tokens_key`."""

    path: str
    text_key: str
    tokens_key: str


class Detokenizer(Struct, frozen=True):
    """The endpoint that turns tokens into text: POST {"tokens": tokens} to `path`."""

    path: str
    text_key: str


class Template(Struct, frozen=True):
    """The endpoint that shows the prompt of a chat request: POST its messages and tools to `path`."""

    path: str
    prompt_key: str
    # Where the prompt becomes text, if it comes as tokens.
    detokenizer: Detokenizer | None = None
    # False: only messages and tools are read. What the engine would say to other fields is not seen there.
    reads_all_fields: bool = True


class LoadSource(Struct, frozen=True):
    """Where an engine reports how busy it is: in the answer to GET `path`, metrics of Prometheus by their names. Of one that
    several models or ranks have, the sum counts."""

    path: str
    # How many requests it processes, and how many wait in it.
    running: str
    waiting: str | None = None
    # The share of its cache that is in use, by the names that it has had.
    cache_usage: tuple[str, ...] = ()
    # It is a list in JSON instead: the members count whose `running` is true.
    is_list: bool = False


class Dialect(Struct, frozen=True):
    """One engine's facts. The defaults are the plain dialect: what servers of the Chat Completions API commonly accept."""

    name: str
    signs: tuple[Sign, ...] = ()
    # The name of the API that it has, in `core/stream/engine_protocols.py`.
    protocol: str = "chat_completions"

    # ---- messages ----

    # The member of an assistant message for earlier reasoning. None: it is sent as <think>…</think>.
    reasoning_member: Literal["reasoning_content", "reasoning"] | None = None
    # The engine continues a last assistant message instead of beginning a new one.
    continues_last_message: bool = False

    # ---- what the chat template demands of messages, and shows -------------------------------------------------------

    # False: it has no system role; the text goes in front of the first user message.
    takes_system_role: bool = True
    # User and assistant have to alternate. Messages with calls, and their results, do not count.
    alternates: bool = False
    # The first message after the system message has to be a user's.
    begins_with_user: bool = False
    # False: what follows a result cannot be read, because the template begins no message of the assistant there.
    answers_results: bool = True
    # The ids of calls have exactly this many letters and digits. None: they may have any length.
    call_id_length: int | None = None
    # False: an assistant message has one call at most.
    takes_parallel_calls: bool = True
    # False: of an assistant message with calls, its text is not shown.
    shows_text_with_calls: bool = True
    # False: earlier reasoning is not shown, however it is sent.
    shows_reasoning: bool = True

    # ---- tools ----

    # The template shows the model the tools, and earlier calls with their results. Otherwise they are written as text.
    shows_tools: bool = True
    # Accepts "auto", and finds the calls in what its model writes. Otherwise "none" is sent, and they are found here.
    reads_calls: bool = True
    # Makes sure of a call where tool_choice is "required", and where it names a function.
    enforces_required: bool = False
    enforces_named: bool = False

    # The model was seen to write calls that are none: of no tool, or no JSON. The answers of a small model are then constrained
    # to the form of a call.
    garbles_calls: bool = False
    # The model was seen to end its turn with words that announce a call, and without the call.
    announces_calls: bool = False

    # ---- constrained answers ----

    # False: `response_format` is rejected.
    takes_response_format: bool = True
    # The field that a constraint is sent in: "grammar" is llama.cpp's, for GBNF. It constrains an answer from its first token
    # on, so that no thought comes before it.
    constraint_member: Literal["response_format", "grammar"] = "response_format"
    # Constrains an answer to a JSON schema, and the arguments of a strict function to its parameters. Otherwise both are
    # checked here.
    constrains_json: bool = False
    constrains_calls: bool = False
    # Constrains an answer beside tools too. Otherwise only one of the two is sent.
    constrains_json_with_tools: bool = True
    # False: an answer that is constrained cannot be a call, so one that may be a call is not constrained.
    calls_when_constrained: bool = True
    # What the engine's own parser wants an answer of this template to begin with. It is spelled out in grammars, and if its
    # model does not write it, in those of free text too.
    answer_prefix: str = ""
    spells_prefix: bool = False
    # Shows a JSON schema to the model. Otherwise it is put into the prompt.
    shows_schema: bool = False

    # ---- other fields of a request ----

    max_tokens_member: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    # Requested effort → the engine's. An effort that is missing here is sent as "medium" is. Without any, none is sent.
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
    # The fields that switch thinking off, and whether they are left out.
    no_thinking: Mapping[str, Any] = field(default_factory=dict)
    thinks: bool = True
    takes_logprobs_with_tools: bool = True
    # False: `stream_options` is rejected.
    takes_stream_options: bool = True
    # OpenAI's API does not have it.
    takes_top_k: bool = False
    # Fields that are always sent, and those that are sent with a constrained answer.
    extra: Mapping[str, Any] = field(default_factory=dict)
    constrained_extra: Mapping[str, Any] = field(default_factory=dict)
    # False: the engine's own parser fails on what this model writes. Then these fields are sent, which switch it off.
    parses_answers: bool = True
    unparsed_extra: Mapping[str, Any] = field(default_factory=dict)
    # The field for the key of a conversation. None: the engine takes none.
    cache_key_member: Literal["prompt_cache_key"] | None = None
    # With `return_progress`, it reports how far it has read the prompt.
    reports_progress: bool = False

    # ---- answers ----

    # The chat template opens the thought: the text of an answer begins inside it, with no tag.
    opens_thought: bool = False
    # False: accepted, but without effect.
    returns_logprobs: bool = True
    shows_images: bool = True
    # Reports usage in a stream. Otherwise it is estimated.
    reports_usage: bool = True
    # False: closes the connection after each stream, whatever it has announced; it is not used again.
    keeps_connections: bool = True

    # ---- how it is examined ----

    # Loads a model when it is asked for: no probe does that unasked.
    loads_on_demand: bool = False
    # Where it reports whether a model is loaded, as "loaded" or another word; the others are left alone until a client asks.
    loading_state: tuple[Lookup, ...] = ()
    tokenizer: Tokenizer | None = None
    # Where the context window of a model is reported, the better source first; and whether it sees images.
    window: tuple[Lookup, ...] = ()
    vision: tuple[Lookup, ...] = ()
    # Where it is how many requests are processed at once.
    slots: tuple[Lookup, ...] = ()
    # Where it reports no slots: how many requests it processes at once without making one another wait much.
    room: int = 1
    # Where the number of its parameters is.
    parameters: tuple[Lookup, ...] = ()
    # Where it is how many tokens its vocabulary has, and how many numbers one of them is.
    vocabulary: tuple[Lookup, ...] = ()
    embedding: tuple[Lookup, ...] = ()
    version: tuple[Lookup, ...] = ()
    # What it is asked for to see whether it is still there: a small document. None: the head of its list of models.
    health: str | None = None
    # Where it reports how busy it is, the better source first.
    load: tuple[LoadSource, ...] = ()
    # Where the text of the chat template is.
    template_text: tuple[Lookup, ...] = ()
    # For probes: where the prompt is shown, the field for a GBNF grammar, and where the engine itself reports whether the
    # template of a model has tools, several calls in a message, and thoughts.
    template: Template | None = None
    grammar_member: str | None = None
    reported_tools: tuple[Lookup, ...] = ()
    reported_parallel_calls: tuple[Lookup, ...] = ()
    reported_reasoning: tuple[Lookup, ...] = ()
    # Capability → what would fix it on the engine's side, mostly a flag.
    advice: Mapping[str, str] = field(default_factory=dict)


# ---- reasoning efforts -----------------------------------------------------------------------------------------------

# From none to the most. OpenAI's, and "max" of Codex and of some engines.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
NO_EFFORT = "none"


def accepted_to_efforts(accepted: Collection[str]) -> Mapping[str, str]:
    """The table of what is sent for each effort."""
    return {effort: nearest for effort in EFFORTS if (nearest := _nearest(effort, accepted)) is not None}


def without_effort(efforts: Mapping[str, str], refused: str) -> Mapping[str, str]:
    """The table after the engine has refused one of the efforts that are sent."""
    return accepted_to_efforts({sent for sent in efforts.values() if sent != refused})


def _nearest(effort: str, accepted: Collection[str]) -> str | None:
    """The nearest effort that is accepted. Of two that are equally near it is the lower one: no model thinks more than it was
    asked to. But a request for a thought gets one, as long as there is any."""
    known = [each for each in EFFORTS if each in accepted]
    thinking = [each for each in known if each != NO_EFFORT]
    among = known if effort == NO_EFFORT or not thinking else thinking
    asked = EFFORTS.index(effort)
    return min(among, key=lambda each: abs(EFFORTS.index(each) - asked), default=None)
