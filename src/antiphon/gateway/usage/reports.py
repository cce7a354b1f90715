"""Usage and costs by buckets of time, as OpenAI's API reports them to administrators."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from antiphon.gateway.usage.prices import Prices
from antiphon.store.account_records import Counts, UsageKind, UsageSum

EMBEDDINGS: Literal["embeddings"] = "embeddings"
BATCH: Literal["batch"] = "batch"
# A group: the members by which results are grouped, with their values.
Group = tuple[tuple[str, Any], ...]
# What a kind of usage has to show for each member that groups.
MEMBERS: Mapping[str, Callable[[UsageKind], Any]] = {
    "api_key_id": lambda kind: kind.owner or None,
    "model": lambda kind: kind.model,
    "batch": lambda kind: kind.channel == BATCH,
}


class Filter(NamedTuple):
    """Which usage is wanted. None: any."""

    keys: Collection[str] | None = None
    models: Collection[str] | None = None
    batch: bool | None = None

    def wants(self, kind: UsageKind) -> bool:
        return (
            (self.keys is None or kind.owner in self.keys)
            and (self.models is None or kind.model in self.models)
            and (self.batch is None or self.batch == (kind.channel == BATCH))
        )


def is_embedding(kind: UsageKind) -> bool:
    return kind.channel == EMBEDDINGS


def buckets(begins: Iterable[int], width: int, results: Mapping[int, Sequence[Any]]) -> list[dict[str, Any]]:
    """Also those in which nothing was used."""
    return [
        {"object": "bucket", "start_time": each, "end_time": each + width, "results": list(results.get(each, ()))}
        for each in begins
    ]


def usage_results(sums: Iterable[UsageSum], group_by: Sequence[str], *, embeddings: bool) -> dict[int, list[dict[str, Any]]]:
    """By the begin of each bucket."""
    found: dict[int, dict[Group, Counts]] = defaultdict(dict)
    for each in sums:
        if is_embedding(each.kind) == embeddings:
            group = tuple((name, MEMBERS[name](each.kind)) for name in group_by)
            groups = found[each.begins]
            groups[group] = groups.get(group, Counts()).plus(each.counts)
    make = _embeddings_result if embeddings else _completions_result
    return {begins: [make(counts, dict(group)) for group, counts in groups.items()] for begins, groups in found.items()}


def _completions_result(counts: Counts, group: Mapping[str, Any]) -> dict[str, Any]:
    """What is not known here, such as the tokens of audio, is null."""
    return {
        "object": "organization.usage.completions.result",
        "input_tokens": counts.input_tokens,
        "output_tokens": counts.output_tokens,
        "num_model_requests": counts.requests,
        "input_cached_tokens": counts.cached_tokens,
        "input_uncached_tokens": max(0, counts.input_tokens - counts.cached_tokens),
        **_ids(group),
        "batch": group.get("batch"),
        "service_tier": None,
        # Beyond OpenAI's.
        "output_reasoning_tokens": counts.reasoning_tokens,
        "num_failed_requests": counts.failures,
        "num_tool_calls": counts.tool_calls,
    }


def _embeddings_result(counts: Counts, group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "object": "organization.usage.embeddings.result",
        "input_tokens": counts.input_tokens,
        "num_model_requests": counts.requests,
        **_ids(group),
    }


def _ids(group: Mapping[str, Any]) -> dict[str, Any]:
    return {"project_id": None, "user_id": None, "api_key_id": group.get("api_key_id"), "model": group.get("model")}


def cost_results(sums: Iterable[UsageSum], group_by: Sequence[str], prices: Prices) -> dict[int, list[dict[str, Any]]]:
    """By the begin of each bucket. What has no price costs nothing, and is not listed."""
    found: dict[int, dict[Group, tuple[float, int]]] = defaultdict(dict)
    for each in sums:
        for line, tokens, cost in prices.lines(each.kind.model, each.counts):
            known = {"api_key_id": each.kind.owner or None, "line_item": line}
            group = tuple((name, known[name]) for name in group_by)
            groups = found[each.begins]
            before = groups.get(group, (0.0, 0))
            groups[group] = before[0] + cost, before[1] + tokens
    return {
        begins: [_cost_result(cost, tokens, dict(group), prices) for group, (cost, tokens) in groups.items()]
        for begins, groups in found.items()
    }


def _cost_result(cost: float, tokens: int, group: Mapping[str, Any], prices: Prices) -> dict[str, Any]:
    has_line = "line_item" in group
    return {
        "object": "organization.costs.result",
        "amount": {"value": cost, "currency": prices.currency},
        "line_item": group.get("line_item"),
        "project_id": None,
        "api_key_id": group.get("api_key_id"),
        "quantity": tokens if has_line else None,
        "quantity_unit": "tokens" if has_line else None,
    }


def begins_between(since: int, until: int, width: int, most: int) -> tuple[list[int], int | None]:
    """The first buckets that have a part of this time, and where the next one begins, if there are more."""
    first = since - since % width
    begins = list(range(first, until, width)[: most + 1])
    return begins[:most], begins[most] if len(begins) > most else None


def wanted_sums(sums: Iterable[UsageSum], wanted: Filter) -> Iterator[UsageSum]:
    return (each for each in sums if wanted.wants(each.kind))
