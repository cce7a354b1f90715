"""What names of models mean, as long as the settings and the lists of the engines stay as they are."""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.core.knowledge.knowledge import ANY_MODEL
from antiphon.core.knowledge.model_names import ModelChoice, ModelNames
from antiphon.engines.upstream import Engine

# Clients may ask for any name. If there are more, they are found out anew.
MOST_NAMES = 200


class Meaning(NamedTuple):
    chosen: ModelChoice
    # The engines that list the model, even while they are away; else those that list none; else all.
    engines: list[Engine]


class ModelTable:
    """Every request asks for a name, and nearly all of them for the same few: what follows from it is found out once.

    It is valid while it is `made_of` what there is: who changes what an engine lists need not know of it.
    """

    def __init__(self, names: ModelNames, engines: Sequence[Engine]) -> None:
        self._names = names
        self._engines = list(engines)
        self.made_of = basis_of(names, engines)
        # Some engine lists no models, and takes any name.
        self.some_take_any = any(engine.knowledge.takes_any_model for engine in engines)
        # The exact names that an engine lists, or the settings have, or that stand for the only one of an engine.
        self.listed = frozenset([ANY_MODEL, *names.models, *(model.id for engine in engines for model in engine.models)])
        self._meanings: dict[str | None, Meaning] = {}

    def meaning_of(self, asked: str | None) -> Meaning:
        """Raises `NotFound` for a name that no engine knows."""
        meaning = self._meanings.get(asked)
        if meaning is None:
            chosen = self._names.choose(asked, (engine.knowledge for engine in self._engines))
            meaning = Meaning(chosen, self.candidates(chosen.model))
            if len(self._meanings) >= MOST_NAMES:
                self._meanings.clear()
            self._meanings[asked] = meaning
        return meaning

    def candidates(self, model: str | None) -> list[Engine]:
        if model is None:
            return self._engines
        listed = [engine for engine in self._engines if engine.knowledge.serves(model)]
        return listed or [engine for engine in self._engines if engine.knowledge.takes_any_model] or self._engines


def basis_of(names: ModelNames, engines: Sequence[Engine]) -> list[object]:
    """All that a table follows from. None of it is changed in place, so comparing it takes no longer than looking whether
    they are the same objects."""
    basis: list[object] = [names]
    for engine in engines:
        knowledge = engine.knowledge
        basis += (engine, knowledge.models, knowledge.takes_any_model)
    return basis
