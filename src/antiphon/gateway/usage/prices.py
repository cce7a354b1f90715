"""What tokens cost, by the operator's prices for a million of them."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

from antiphon.store.account_records import Counts

MILLION = 1_000_000
# For all models without a price of their own.
ANY = "*"


class Price(NamedTuple):
    input: float
    cached: float
    output: float


class ConfiguredPrice(Protocol):
    """As the settings have it."""

    @property
    def input(self) -> float: ...
    @property
    def cached(self) -> float | None: ...
    @property
    def output(self) -> float: ...


class LineItem(NamedTuple):
    """One line of a bill: what for, how many tokens, and what they cost."""

    name: str
    tokens: int
    cost: float


class Prices(Struct, frozen=True):
    currency: str
    # By model.
    prices: Mapping[str, Price]

    def lines(self, model: str, counts: Counts) -> list[LineItem]:
        """Nothing for a model without a price."""
        price = self.prices.get(model) or self.prices.get(ANY)
        if price is None:
            return []
        cached = min(counts.cached_tokens, counts.input_tokens)
        used = (
            ("input_tokens", counts.input_tokens - cached, price.input),
            ("cached_input_tokens", cached, price.cached),
            ("output_tokens", counts.output_tokens, price.output),
        )
        return [LineItem(f"{model}, {name}", tokens, tokens * each / MILLION) for name, tokens, each in used if tokens]

    def cost(self, model: str, counts: Counts) -> float:
        return sum(line.cost for line in self.lines(model, counts))


def configured_prices(currency: str, given: Mapping[str, ConfiguredPrice]) -> Prices:
    """`given`: by model."""
    by_model = {
        model: Price(each.input, each.input if each.cached is None else each.cached, each.output)
        for model, each in given.items()
    }
    return Prices(currency, by_model)
