"""Which model answers a request: the one that it names, the one that the settings give for that name, or the only one."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.errors import NotFound

ANSWERED_BY = "model {asked} is not known here: answered by {model}"
NOT_KNOWN = "The model {asked!r} does not exist here. It must be one of: {models}."


class ModelChoice(NamedTuple):
    """The model that answers a request."""

    # None: the first model of the engine that is asked.
    model: str | None
    # Why another model answers than the one that was asked for.
    notice: str | None = None


class ModelNames(Struct, frozen=True):
    """What the settings say about the names of models."""

    # The name that clients use → the name that an engine knows.
    names: Mapping[str, str] = field(default_factory=dict)
    # The model of a request that names none, or one that no engine knows.
    default: str | None = None

    @property
    def models(self) -> list[str]:
        """The models that the settings name, as engines know them, the default one first."""
        default = [self.names.get(self.default, self.default)] if self.default is not None else []
        return list(dict.fromkeys((*default, *self.names.values())))

    def choose(self, asked: str | None, engines: Iterable[EngineKnowledge]) -> ModelChoice:
        """Raises `NotFound` if no engine knows the name, and there are several models."""
        engines = list(engines)
        name = self._meant(asked or self.default)
        if name is None:
            # Of engines that list no models, the settings may name one.
            unlisted = all(engine.takes_any_model for engine in engines)
            return ModelChoice(self.models[0] if unlisted and self.models else None)
        if (known := _listed(name, engines)) is not None:
            return ModelChoice(known)
        models = list(dict.fromkeys(model.id for engine in engines for model in engine.models))
        if not models or any(engine.takes_any_model for engine in engines):
            return ModelChoice(name)
        model = _listed(self._meant(self.default), engines) or (models[0] if len(models) == 1 else None)
        if model is None:
            choices = ", ".join(dict.fromkeys((*models, *self.names)))
            raise NotFound(NOT_KNOWN.format(asked=name, models=choices), param="model", code="model_not_found")
        return ModelChoice(model, ANSWERED_BY.format(asked=asked or name, model=model))

    def _meant(self, name: str | None) -> str | None:
        return name if name is None else self.names.get(name, name)


def _listed(name: str | None, engines: Iterable[EngineKnowledge]) -> str | None:
    """The name as an engine lists it."""
    if name is not None:
        for engine in engines:
            if (model := engine.model_called(name)) is not None:
                return model
    return None
