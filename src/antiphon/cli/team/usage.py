"""`antiphon usage`: what the keys have used, as a table, with a bar for each day."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
import typer

from antiphon.cli.gateway_client import GatewayClient, choose_gateway, key_for
from antiphon.cli.ps import columns
from antiphon.cli.team.keys import in_store
from antiphon.gateway.state.owners import shown_sum
from antiphon.gateway.usage.prices import configured_prices
from antiphon.gateway.usage.reports import buckets, cost_results, usage_results
from antiphon.logs import printable
from antiphon.settings.settings import Settings
from antiphon.store.account_records import DAY

USAGE, COSTS = "/v1/organization/usage/completions", "/v1/organization/costs"
MOST_DAYS = 31
BAR = 40
HEAD = ["key", "model", "requests", "failed", "input", "cached", "output", "reasoning", "calls", "cost"]
# The members of a result, in the order of the columns.
MEMBERS = (
    "num_model_requests",
    "num_failed_requests",
    "input_tokens",
    "input_cached_tokens",
    "output_tokens",
    "output_reasoning_tokens",
    "num_tool_calls",
)
NONE = "Nothing was used in this time."
# As the gateway answers with them.
Buckets: TypeAlias = Sequence[Mapping[str, Any]]
NO_KEY = "(no key)"
# Of requests that were refused before a model was chosen.
NO_MODEL = "(no model)"


def run_usage(settings: Settings, url: str | None, *, days: int, as_json: bool) -> int:
    """Of the store of the settings, which needs neither a gateway nor a key; or of the gateway at this URL. Raises
    GatewayFailed, SettingsError."""
    today = int(time.time()) // DAY * DAY
    since = today - (days - 1) * DAY
    asks = url is not None or (settings.store or "").startswith("memory:")
    used, costs = ask_gateway(settings, url, since, days) if asks else read_store(settings, since, days)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode({"usage": used, "costs": costs})).decode())
    else:
        typer.echo("\n".join(printable(line) for line in lines(used, costs)))
    return 0


def ask_gateway(settings: Settings, url: str | None, since: int, days: int) -> tuple[Buckets, Buckets]:
    client = GatewayClient(choose_gateway(settings, url), key_for(settings, admin=True))
    query = f"?start_time={since}&limit={days}"
    return (
        client.member(f"{USAGE}{query}&group_by=api_key_id&group_by=model", "data"),
        client.member(f"{COSTS}{query}&group_by=api_key_id&group_by=line_item", "data"),
    )


def read_store(settings: Settings, since: int, days: int) -> tuple[Buckets, Buckets]:
    found = in_store(settings, lambda accounts: accounts.usage(since, since + days * DAY, DAY))
    sums = [shown_sum(each) for each in found]
    begins = range(since, since + days * DAY, DAY)
    used = usage_results(sums, ("api_key_id", "model"), embeddings=False)
    costs = cost_results(sums, ("api_key_id", "line_item"), configured_prices(settings.usage.currency, settings.usage.prices))
    return buckets(begins, DAY, used), buckets(begins, DAY, costs)


def lines(used: Sequence[Mapping[str, Any]], costs: Sequence[Mapping[str, Any]]) -> list[str]:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(MEMBERS))
    for bucket in used:
        for result in bucket["results"]:
            place = result["api_key_id"] or NO_KEY, result["model"] or NO_MODEL
            sums[place] = [total + result[name] for total, name in zip(sums[place], MEMBERS, strict=True)]
    if not sums:
        return [NONE]
    spent = costs_by_place(costs)
    rows = [[*place, *(f"{count:,}" for count in counts), spent.get(place, "")] for place, counts in sorted(sums.items())]
    head = HEAD if any(row[-1] for row in rows) else HEAD[:-1]
    return [*columns([head, *(row[: len(head)] for row in rows)]), "", *_bars(used)]


def costs_by_place(costs: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """By key and model."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    currencies: dict[tuple[str, str], str] = {}
    for bucket in costs:
        for result in bucket["results"]:
            place = result["api_key_id"] or NO_KEY, result["line_item"].rpartition(", ")[0]
            sums[place] += result["amount"]["value"]
            currencies[place] = result["amount"]["currency"]
    return {place: f"{cost:.4f} {currencies[place]}" for place, cost in sums.items()}


def _bars(used: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of the tokens of each day."""
    tokens = [sum(result["input_tokens"] + result["output_tokens"] for result in bucket["results"]) for bucket in used]
    most = max(tokens, default=0) or 1
    width = max(len(f"{each:,}") for each in tokens)
    for bucket, each in zip(used, tokens, strict=True):
        day = datetime.fromtimestamp(bucket["start_time"], UTC).strftime("%Y-%m-%d")
        # Of a day on which anything was used, at least a part of it is seen.
        bar = "█" * max(round(each / most * BAR), each > 0)
        yield f"{day}  {each:>{width},} tokens  {bar}".rstrip()
