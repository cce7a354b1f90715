"""Whether the context window of a model has room for Codex. Codex itself finds out minutes later, and misleads about it."""

from collections.abc import Iterable, Mapping
from typing import Any

from antiphon.core.knowledge.dialects import BY_NAME

# Tokens of the first request of a session in a terminal, as counted by an engine: tools, instructions, and a short task.
FIRST_PROMPT = {"lean": 1_300, "full": 6_700}
# The least that leaves room for work beside it: the instructions of a project, answers, and one long output of a tool.
NEEDED = {"lean": 4_096, "full": 12_288}
# What is recommended in place of too little.
BETTER_WINDOW = 16_384

TOO_SMALL = """\
The context window of {model} has {window} tokens. Codex needs at least {needed}: its first request alone has about {prompt}, \
and work needs room, too. What you can do:
{ways}"""
LEANER = "Without --full, Codex needs {needed} tokens."
FLAG = "Start the engine with a larger window ({name}: {advice}), if the model can use one. N: {better} or more."
EMBEDDED = "The embedded engine: set ANTIPHON_MODEL_CONTEXT={better}, or start the gateway with --model-context {better}."
OTHER_MODEL = "Choose another model with -m NAME: {models}."
NO_OTHER_MODEL = "Serve a model with a larger window. `antiphon models` lists some that are embedded."
ANYWAY = "`antiphon codex --anyway` starts Codex all the same."


def has_room(window: int, *, lean: bool) -> bool:
    return window >= NEEDED[_kind(lean)]


def _kind(lean: bool) -> str:
    return "lean" if lean else "full"


def too_small(model: str, windows: Mapping[str, int], engines: Iterable[Mapping[str, Any]], *, lean: bool, full: bool) -> str:
    """What to say about a model whose window has no room. `windows`: of all models; `engines`: as `/ready` shows them; `full`:
    the user has chosen that Codex is not lean."""
    kind, window = _kind(lean), windows[model]
    roomy = [name for name, tokens in windows.items() if tokens >= NEEDED["full"]]
    ways = [
        *([LEANER.format(needed=NEEDED["lean"])] if full and window >= NEEDED["lean"] else []),
        EMBEDDED.format(better=BETTER_WINDOW),
        *(FLAG.format(name=name, advice=advice, better=BETTER_WINDOW) for name, advice in _advice(model, engines)),
        OTHER_MODEL.format(models=", ".join(roomy)) if roomy else NO_OTHER_MODEL,
        ANYWAY,
    ]
    shown = "\n".join(f"- {way}" for way in ways)
    return TOO_SMALL.format(model=model, window=window, needed=NEEDED[kind], prompt=FIRST_PROMPT[kind], ways=shown)


def _advice(model: str, engines: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """By the engines that have the model, or by all of them: what makes the window larger."""
    ready = [engine for engine in engines if engine.get("dialect") in BY_NAME]
    those = [engine for engine in ready if model in engine["models"]] or ready
    advice = {name: BY_NAME[name].advice.get("context window") for name in (engine["dialect"] for engine in those)}
    return [(name, text) for name, text in advice.items() if text is not None]
