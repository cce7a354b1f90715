"""What a model needs that a request does not ask for: help, if it is small, and how its tokens are chosen.

A strong model gets no help, and is asked exactly as if there were none. Sampling is data of a model, not of an engine.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct, field, structs

from antiphon.patterns import late_pattern
from antiphon.wire.responses import CreateResponse

HelpSetting = Literal["auto", "off", "full"]

# A model with fewer parameters than this is small.
SMALL_MODEL = 5_000_000_000
# Codex with all of its features takes a large part of a window below this, in tokens.
SMALL_WINDOW = 16_384
# The number of parameters in the name of a model: Qwen2.5-Coder-1.5B, SmolLM2-135M, gemma3:4b, Mixtral-8x7B. "A3B" is the
# active part only. Fewer than two digits of millions are the length of a context.
_SIZE = late_pattern(
    r"(?<![A-Za-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?(?=B)|\d{2,3}(?=M))([BM])(?![A-Za-z0-9])", re.IGNORECASE
)
_UNITS = {"b": 1_000_000_000, "m": 1_000_000}


class Help(Struct, frozen=True):
    """What the gateway does for a model that needs it."""

    # Hard tools of clients are offered as easier functions, and their calls are translated.
    easier_tools: bool = False
    # An answer that may be a call is asked for under a schema: one of the calls, or a text.
    constrains_answers: bool = False
    # Worked examples are in front of the conversation, if the answer is constrained.
    shows_examples: bool = False
    # A call that fails again and again is answered with what to do instead, and then not offered.
    stops_loops: bool = False
    # Codex gets fewer features and shorter instructions.
    lean_codex: bool = False
    # Why it gets this help, as the end of a sentence.
    reason: str = ""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in PARTS)

    @property
    def parts(self) -> list[str]:
        """What the gateway does for the model, as it is shown to people."""
        return [words for name, words in PARTS.items() if getattr(self, name)]


PARTS = {
    "easier_tools": "offers hard tools as easier functions",
    "constrains_answers": "constrains answers to a call or a text",
    "shows_examples": "shows worked examples",
    "stops_loops": "stops calls that fail again and again",
    "lean_codex": "starts Codex with fewer features and shorter instructions",
}
NO_HELP = Help()
FULL_HELP = Help(
    easier_tools=True,
    constrains_answers=True,
    shows_examples=True,
    stops_loops=True,
    lean_codex=True,
    reason='the setting help is "full"',
)


def choose_help(setting: HelpSetting, *, parameters: int | None, window: int | None, garbles_calls: bool) -> Help:
    """A model gets help if it is small, or as the setting has it. `garbles_calls`: it was seen to write calls that are none."""
    if setting == "off":
        return NO_HELP
    if setting == "full":
        return FULL_HELP
    small_window = window is not None and window < SMALL_WINDOW
    if parameters is not None and parameters < SMALL_MODEL:
        reason = f"the model has {size(parameters)} parameters"
        return structs.replace(FULL_HELP, constrains_answers=garbles_calls, shows_examples=garbles_calls, reason=reason)
    return Help(lean_codex=True, reason=f"the context window has {window} tokens") if small_window else NO_HELP


# The names of models come with requests. Most are the same few.
@lru_cache(maxsize=256)
def parameters_in_name(name: str) -> int | None:
    """The number of parameters that the name has in it. Of two, the smaller one is the active part. None: it has no number."""
    found = _SIZE.findall(name.rpartition("/")[2])
    return max((int(int(times or 1) * float(number) * _UNITS[unit.lower()]) for times, number, unit in found), default=None)


def size(parameters: int) -> str:
    """The number as people read it: 1543714304 is 1.5 billion."""
    if parameters < _UNITS["m"]:
        return f"{parameters:,}"
    if parameters < _UNITS["b"]:
        return f"{parameters / _UNITS['m']:.0f} million"
    return f"{parameters / _UNITS['b']:.1f} billion"


class Sampling(Struct, frozen=True):
    """The values of one model. None: the engine's own counts."""

    temperature: float | None = None
    top_p: float | None = None
    # The longest answer of a request that does not ask for a length, in tokens. It does not count where tools of a client or
    # of a server are offered: an answer that is cut off ends an agent's turn.
    most_tokens: int | None = None
    # Fields of the engine that are sent where neither such tools nor a schema are.
    free_extra: Mapping[str, Any] = field(default_factory=dict)


NO_EXTRA: Mapping[str, Any] = {}
# What the engine does by itself.
ENGINE_DEFAULT = Sampling()


def sampling_of_answer(sampling: Sampling, request: CreateResponse, *, has_tools: bool, compacts: bool) -> Sampling:
    """The part of a model's sampling that counts for an answer. `has_tools`: the answer may be a call of a tool that somebody
    else runs, now or in another round. `compacts`: the answer is a summary, whose length is that of what it replaces."""
    format = request.text.format if request.text else None
    is_text = not has_tools and (format is None or format.type == "text")
    most_tokens = None if has_tools or compacts else sampling.most_tokens
    free_extra = sampling.free_extra if is_text else NO_EXTRA
    if most_tokens == sampling.most_tokens and free_extra == sampling.free_extra:
        return sampling
    return structs.replace(sampling, most_tokens=most_tokens, free_extra=free_extra)


def is_capped(request: CreateResponse, sampling: Sampling) -> bool:
    """The length of the answer is limited by the model's sampling, not by the request."""
    return request.max_output_tokens is None and sampling.most_tokens is not None


def with_sampling(request: CreateResponse, sampling: Sampling) -> CreateResponse:
    """The request with the model's values where it has none of its own."""
    if sampling.temperature is None and sampling.top_p is None and sampling.most_tokens is None:
        return request

    def own(value: Any, otherwise: Any) -> Any:
        return otherwise if value is None else value

    return structs.replace(
        request,
        temperature=own(request.temperature, sampling.temperature),
        top_p=own(request.top_p, sampling.top_p),
        max_output_tokens=own(request.max_output_tokens, sampling.most_tokens),
    )
