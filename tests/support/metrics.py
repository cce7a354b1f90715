"""What a gateway shows at /metrics, read as Prometheus reads it."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from support.gateway import GatewayUnderTest


class Scraped:
    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels."""
        return sum(sample.value for sample in self.samples if sample.name == name and labels.items() <= _of(sample).items())

    def labels(self, name: str, label: str) -> set[str]:
        return {_of(sample)[label] for sample in self.samples if sample.name == name}


def _of(sample: Any) -> Mapping[str, str]:
    labels: Mapping[str, str] = sample.labels
    return labels


async def scrape(gateway: GatewayUnderTest, key: str | None = None) -> Scraped:
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    async with gateway.client.get(gateway.url + "/metrics", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Scraped(await answer.text())
