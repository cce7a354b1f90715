"""What the documents and the dashboard say of the metrics."""

import re
from typing import get_args

import pytest
from server.metrics.table import PAGE, TABLE, metrics, table

from antiphon.core.exchange.steps import AskReason
from antiphon.core.protocols.client_protocol import Channel
from antiphon.server.metrics.responses import LEFT, REFUSED

# As Prometheus wants them: a base unit at the end, `_total` for what only grows, `_info` for what is always 1.
NAME = re.compile(r"antiphon_[a-z_]+")


def test_the_table_of_metrics_is_up_to_date() -> None:
    found = TABLE.search(PAGE.read_text())
    assert found is not None
    assert found.group() == table(), "run python tests/server/metrics/table.py"


def test_names_follow_the_conventions_of_prometheus() -> None:
    found = list(metrics())
    assert len(found) > 20
    for name, kind, _, help in found:
        assert NAME.fullmatch(name)
        assert (kind == "counter") == name.endswith("_total")
        assert (kind == "histogram") == name.endswith("_seconds")
        assert help.endswith(".")


@pytest.mark.parametrize("value", [*get_args(Channel), *get_args(AskReason)[1:], LEFT, REFUSED])
def test_the_values_of_labels_are_explained(value: str) -> None:
    labels = PAGE.read_text().partition("| label | values |")[2].partition("\n\n")[0]
    assert f"`{value}`" in labels
