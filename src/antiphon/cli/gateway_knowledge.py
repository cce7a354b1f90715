"""What a running gateway knows of its engines, for `antiphon doctor`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from antiphon.cli.gateway_client import GatewayClient, GatewayFailed, choose_gateway, key_for
from antiphon.settings.settings import Settings


class KnownModel(NamedTuple):
    id: str
    # Each with a name, a value, a source and a meaning.
    facts: Sequence[Mapping[str, Any]]

    @property
    def learned(self) -> list[Mapping[str, Any]]:
        """Without what is true of all engines of the kind."""
        return [fact for fact in self.facts if fact["source"] != "dialect"]


class KnownEngine(NamedTuple):
    url: str
    dialect: str
    is_embedded: bool
    # None: it is ready.
    why_not: str | None
    models: Sequence[KnownModel]

    def model(self, wanted: str | None) -> KnownModel | None:
        """The one of this name, or the first."""
        return next((model for model in self.models if wanted in (None, model.id)), None)


class GatewayKnowledge(NamedTuple):
    """Without a gateway, nothing is known."""

    url: str | None = None
    engines: Sequence[KnownEngine] = ()
    # Why a gateway that runs does not say what it knows.
    problem: str | None = None

    @property
    def embedded(self) -> list[KnownEngine]:
        """They have keys of their own, so that only their gateway can ask them."""
        return [engine for engine in self.engines if engine.is_embedded]

    @property
    def upstream(self) -> list[str]:
        return [engine.url for engine in self.engines if not engine.is_embedded]

    def learned(self, url: str, model: str | None) -> list[Mapping[str, Any]] | None:
        """What the gateway has learned of a model, or the first one; None: it does not know it, or there is no gateway."""
        known = next((engine.model(model) for engine in self.engines if engine.url == url), None)
        return known.learned if known is not None else None


def ask_gateway(settings: Settings, url: str | None = None) -> GatewayKnowledge:
    try:
        url = choose_gateway(settings, url)
    except GatewayFailed:
        return GatewayKnowledge()
    try:
        found = GatewayClient(url, key_for(settings)).member("/inspector/engines", "engines")
    except GatewayFailed as failed:
        return GatewayKnowledge(url, problem=str(failed))
    return GatewayKnowledge(url, [_engine(engine) for engine in found])


def _engine(found: Mapping[str, Any]) -> KnownEngine:
    models = [KnownModel(model["id"], model["facts"]) for model in found["models"]]
    return KnownEngine(found["url"], found["dialect"], found["embedded"], found["why_not"], models)
