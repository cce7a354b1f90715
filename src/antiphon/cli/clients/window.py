"""Whether the context window of a model has room for a program, which itself finds out minutes later, and misleads about it."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from antiphon.cli.clients.program import Program
from antiphon.core.knowledge.dialects import BY_NAME

TOO_SMALL = """\
The context window of {model} has {window} tokens. {name} needs at least {needed}: its first request alone has about {prompt}, \
and work needs room, too. What you can do:
{ways}"""
LEANER = "Without --full, {name} needs {needed} tokens."
FLAG = "Start the engine with a larger window ({engine}: {advice}), if the model can use one. N: {better} or more."
EMBEDDED = "The embedded engine: set ANTIPHON_MODEL_CONTEXT={better}, or start the gateway with --model-context {better}."
OTHER_MODEL = "Choose another model with {flag} NAME: {models}."
NO_OTHER_MODEL = "Serve a model with a larger window. `antiphon models` lists some that are embedded."
ANYWAY = "`antiphon {command} --anyway` starts {name} all the same."


class Size(Struct, frozen=True):
    """In tokens."""

    # The first request of a session, as counted by an engine: tools, instructions, and a short task.
    prompt: int
    # The least window that leaves room for work beside it: instructions of a project, answers, and one long output of a tool.
    needed: int


class Room(Struct, frozen=True):
    """The room that a program needs, lean and with all of its features."""

    program: Program
    lean: Size
    full: Size
    # The window that is recommended in place of too little.
    better: int
    # The program's flag that names a model.
    model_flag: str

    def is_in(self, window: int, *, lean: bool) -> bool:
        return window >= self._size(lean).needed

    def _size(self, lean: bool) -> Size:
        return self.lean if lean else self.full

    def too_small(
        self, model: str, windows: Mapping[str, int], engines: Iterable[Mapping[str, Any]], *, lean: bool, full: bool
    ) -> str:
        """What to say about a model whose window has no room. `windows`: of all models; `engines`: as `/ready` shows them;
        `full`: the user has chosen that the program is not lean."""
        name, size, window = self.program.name, self._size(lean), windows[model]
        roomy = [name for name, tokens in windows.items() if tokens >= self.full.needed]
        ways = [
            *([LEANER.format(name=name, needed=self.lean.needed)] if full and window >= self.lean.needed else []),
            EMBEDDED.format(better=self.better),
            *(FLAG.format(engine=engine, advice=text, better=self.better) for engine, text in _advice(model, engines)),
            OTHER_MODEL.format(flag=self.model_flag, models=", ".join(roomy)) if roomy else NO_OTHER_MODEL,
            ANYWAY.format(command=self.program.command, name=name),
        ]
        shown = "\n".join(f"- {way}" for way in ways)
        return TOO_SMALL.format(model=model, window=window, name=name, needed=size.needed, prompt=size.prompt, ways=shown)


def _advice(model: str, engines: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """By the engines that have the model, or by all of them: what makes the window larger."""
    ready = [engine for engine in engines if engine.get("dialect") in BY_NAME]
    those = [engine for engine in ready if model in engine["models"]] or ready
    advice = {name: BY_NAME[name].advice.get("context window") for name in (engine["dialect"] for engine in those)}
    return [(name, text) for name, text in advice.items() if text is not None]
