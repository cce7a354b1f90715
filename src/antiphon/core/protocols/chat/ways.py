"""Which way a request goes: to the engine as it came, or through all that makes its answer one to rely on.

The second way is for what engines do badly: tools, choices among them, formats, and histories with calls. What cannot be said
in the hub format goes the first way, whatever else the request has. A pure function of the body and of the settings.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from antiphon.core.protocols.responses.references import is_address

# The types of content that can be read, by the role of the message.
TEXTS = frozenset({"text"})
PARTS: Mapping[str, Collection[str]] = {
    "system": TEXTS,
    "developer": TEXTS,
    "user": TEXTS | {"image_url", "input_audio", "file"},
    "assistant": TEXTS | {"refusal"},
    "tool": TEXTS | {"image_url", "input_audio", "file"},
}
FORMATS = ("text", "json_object", "json_schema")
TOOLS = ("function", "custom")


def _objects(value: Any) -> list[dict[str, Any]]:
    """What is none is reported where it is read."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _type_of(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else None


# ---- what is passed on -----------------------------------------------------------------------------------------------


def _has_foreign_message(messages: Any) -> bool:
    """One that the model is to go on with, one of the older API, or one with content that cannot be read."""
    given = _objects(messages)
    return bool(given) and (given[-1].get("role") == "assistant" or any(map(_is_foreign, given)))


def _is_foreign(message: dict[str, Any]) -> bool:
    known = PARTS.get(role) if isinstance(role := message.get("role"), str) else None
    if known is None:
        # What is no role is an error, and no reason to pass it on.
        return isinstance(role, str)
    if message.get("audio") or message.get("function_call"):
        return True
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(kind := _type_of(part), str) and kind not in known for part in content)


def _has_foreign_tool(tools: Any) -> bool:
    return any(isinstance(kind := tool.get("type"), str) and kind not in TOOLS for tool in _objects(tools))


def _is_foreign_format(format: Any) -> bool:
    return isinstance(kind := _type_of(format), str) and kind not in FORMATS


def _is_given(value: Any) -> bool:
    return value is not None


# By the field: whether its value can only be passed on. A value of null is none.
PASSED: Mapping[str, Callable[[Any], bool]] = {
    "n": lambda count: bool(count != 1),
    "modalities": lambda kinds: bool(kinds != ["text"]),
    "audio": bool,
    "logit_bias": bool,
    "prediction": bool,
    # The older API of tools.
    "functions": bool,
    "function_call": _is_given,
    "messages": _has_foreign_message,
    "tools": _has_foreign_tool,
    "response_format": _is_foreign_format,
    # Constraints of an engine's own, which would meet those that the gateway makes.
    **dict.fromkeys(("grammar", "json_schema", "structured_outputs", "guided_json", "guided_regex"), bool),
    **dict.fromkeys(("guided_choice", "guided_grammar", "regex", "ebnf", "structural_tag"), bool),
    # They change what an answer is.
    **dict.fromkeys(("echo", "continue_final_message", "use_beam_search", "best_of", "prompt_logprobs"), bool),
    "add_generation_prompt": lambda added: added is False,
}


# ---- what is answered here -------------------------------------------------------------------------------------------


def _has_calls(messages: Any) -> bool:
    # A loop, as it is gone through for all messages of every request.
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and (message.get("role") == "tool" or message.get("tool_calls")):
            return True
    return False


def _has_addresses(messages: Any) -> bool:
    """Of images, which engines may not be able to fetch."""
    parts = (part for message in _objects(messages) for part in _objects(message.get("content")) if "image_url" in part)
    urls = (image.get("url") if isinstance(image := part["image_url"], dict) else image for part in parts)
    return any(isinstance(url, str) and is_address(url) for url in urls)


HISTORY = "calls in its messages"
IMAGES = "images by URL"
ATTACHED = "tools that the operator adds"
# It is read where the gateway can search the web, and passed on where it cannot.
SEARCH = "web_search_options"
# The type of the tool that it stands for.
WEB_SEARCH = "web_search"
# By the field: whether its value is one that engines do badly; and how the field is called in a notice.
HELPED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "tools": (bool, "tools"),
    "tool_choice": (_is_given, "tool_choice"),
    "response_format": (lambda format: _type_of(format) != "text", "response_format"),
    "messages": (_has_calls, HISTORY),
}


CHECKED = "the answer was read and checked here, and not passed through: the request has {fields}"
UNCHECKED = "the answer was passed through, and not checked here: the request has {fields} that only its engine can obey"


class Way(NamedTuple):
    # To the engine, as it came.
    passes: bool
    # What it has that engines do badly, and what cannot be done here.
    helped: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    @property
    def notice(self) -> str | None:
        if not self.passes:
            return CHECKED.format(fields=", ".join(self.helped))
        return UNCHECKED.format(fields=", ".join(self.passed)) if self.passed else None


AS_IT_CAME = Way(passes=True)


class Rules(NamedTuple):
    """What the settings say about the ways, and about what is answered here."""

    # The models, and the names of keys, whose requests are all passed on.
    passed_models: Collection[str] = ()
    passed_keys: Collection[str] = ()
    # The types of the tools that the gateway runs.
    tools: Collection[str] = ()
    # Whether the operator adds tools to the requests of an owner for a model.
    attaches: Callable[[str, str | None], bool] = lambda owner, model: False
    # A small model gets help.
    helps: bool = False
    # Images are fetched from their addresses.
    fetches: bool = False


NO_RULES = Rules()


def choose_way(body: Any, rules: Rules = NO_RULES, owner: str = "") -> Way:
    """`body`: as JSON has it, whatever it is. `owner`: the name of the client's key."""
    if not isinstance(body, dict) or owner in rules.passed_keys:
        return AS_IT_CAME
    model = body.get("model")
    if isinstance(model, str) and model in rules.passed_models:
        return AS_IT_CAME
    helped: tuple[str, ...] = ()
    for field, (needs, name) in HELPED.items():
        if (value := body.get(field)) is not None and needs(value):
            helped += (name,)
    asks_to_search = body.get(SEARCH) is not None
    searches = WEB_SEARCH in rules.tools
    if asks_to_search and searches:
        helped += (SEARCH,)
    if rules.attaches(owner, model if isinstance(model, str) else None):
        helped += (ATTACHED,)
    if rules.fetches and _has_addresses(body.get("messages")):
        helped += (IMAGES,)
    if not helped:
        return AS_IT_CAME
    passed = tuple(field for field, value in body.items() if value is not None and field in PASSED and PASSED[field](value))
    if asks_to_search and not searches:
        passed += (SEARCH,)
    return Way(bool(passed), helped, passed)
