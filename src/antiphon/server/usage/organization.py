"""/v1/organization/usage/… and /costs: what the keys have used. The admin key sees all, another key its own."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.protocols.client_protocol import JSON
from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest, quoted
from antiphon.gateway.limits.threads import run_in_view_thread
from antiphon.gateway.state.owners import shown_sum
from antiphon.gateway.usage.reports import (
    Filter,
    begins_between,
    buckets,
    cost_results,
    usage_results,
    wanted_sums,
)
from antiphon.ids import ADMIN
from antiphon.server.answers import to_answer
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.store.account_records import DAY, HOUR, UsageSum

Seconds = Annotated[int, Meta(ge=0, lt=2**40)]
Limit = Annotated[int, Meta(ge=1)]
# By the width of a bucket: its seconds, and how many there are by default and at most.
WIDTHS = {"1h": (HOUR, 24, 168), "1d": (DAY, 7, 31)}
MOST_COST_DAYS = 180
USAGE_GROUPS = ("api_key_id", "model", "batch")
COST_GROUPS = ("api_key_id", "line_item")
NOT_BY_MINUTE = "Invalid `bucket_width`: usage is kept by the hour. It must be one of: 1h, 1d."
NOT_HERE = "`{name}` has no meaning here: there are keys and models, and no projects and users. Use {instead}."


# By the begin of each bucket.
Results: TypeAlias = dict[int, list[dict[str, Any]]]


class UsageQuery(Struct, frozen=True):
    start_time: Seconds
    end_time: Seconds | None = None
    bucket_width: Literal["1m", "1h", "1d"] = "1d"
    limit: Limit | None = None
    page: Seconds | None = None
    batch: Literal["true", "false"] | None = None


async def completions(request: web.Request) -> web.Response:
    return await _usage(request, embeddings=False)


async def embeddings(request: web.Request) -> web.Response:
    return await _usage(request, embeddings=True)


async def _usage(request: web.Request, *, embeddings: bool) -> web.Response:
    query, group_by = _query(request), _list(request, "group_by", USAGE_GROUPS)
    if query.bucket_width == "1m":
        raise InvalidRequest(NOT_BY_MINUTE, param="bucket_width", code="invalid_value")
    width, default, most = WIDTHS[query.bucket_width]
    return await _page(request, query, width, default, most, partial(usage_results, group_by=group_by, embeddings=embeddings))


async def costs(request: web.Request) -> web.Response:
    query, group_by = _query(request), _list(request, "group_by", COST_GROUPS)
    if query.bucket_width != "1d":
        raise InvalidRequest("Invalid `bucket_width`: it must be 1d.", param="bucket_width", code="invalid_value")
    prices = request.app[APP].gateway.budgets.prices
    results = partial(cost_results, group_by=group_by, prices=prices)
    return await _page(request, query, DAY, 7, MOST_COST_DAYS, results)


async def _page(
    request: web.Request,
    query: UsageQuery,
    width: int,
    default: int,
    most: int,
    results: Callable[[Sequence[UsageSum]], Results],
) -> web.Response:
    limit = default if query.limit is None else query.limit
    if limit > most:
        raise InvalidRequest(f"Invalid `limit`: at most {most} buckets.", param="limit", code="invalid_value")
    since = query.start_time if query.page is None else query.page
    until = int(time.time()) + 1 if query.end_time is None else query.end_time
    begins, following = begins_between(since, until, width, limit)
    wanted = Filter(
        _listed(request, "api_key_ids"), _listed(request, "models"), None if query.batch is None else query.batch == "true"
    )

    def day_results(sums: Sequence[UsageSum]) -> Results:
        return results(list(wanted_sums(map(shown_sum, sums), wanted)))

    def page(found: Results) -> bytes:
        next_page = None if following is None else str(following)
        data = buckets(begins, width, found)
        return msgspec.json.encode({"object": "page", "data": data, "has_more": following is not None, "next_page": next_page})

    async def read() -> bytes:
        found: Results = {}
        gateway, owner = request.app[APP].gateway, request[OWNER]
        # What this process has not written yet is wanted, too.
        await gateway.ledger.flush()
        # Day by day: a month of many keys would keep the event loop from everything else.
        for day in range(begins[0], begins[-1] + width, DAY) if begins else ():
            end = min(until, begins[-1] + width, day + DAY)
            sums = await gateway.store.accounts.usage(day, end, width, None if owner == ADMIN else owner)
            found |= await run_in_view_thread(partial(day_results, sums))
        return await run_in_view_thread(partial(page, found))

    async with request.app[APP].inspection.listing.entered(request[OWNER]) as view:
        return to_answer(await view.run(read()), JSON, {})


def _query(request: web.Request) -> UsageQuery:
    query = request.query
    for name, instead in (("project_ids", "api_key_ids"), ("user_ids", "api_key_ids"), ("line_items", "group_by=line_item")):
        if name in query or f"{name}[]" in query:
            raise InvalidRequest(NOT_HERE.format(name=name, instead=instead), param=name, code="unsupported_parameter")
    return convert_strings({name: query[name] for name in UsageQuery.__struct_fields__ if name in query}, UsageQuery)


def _listed(request: web.Request, name: str) -> list[str] | None:
    """Clients write a list as NAME=A&NAME=B, NAME[]=A&NAME[]=B or NAME=A,B."""
    values = [*request.query.getall(name, ()), *request.query.getall(f"{name}[]", ())]
    found = [part.strip() for value in values for part in value.split(",") if part.strip()]
    return found or None


def _list(request: web.Request, name: str, allowed: Sequence[str]) -> list[str]:
    found = list(dict.fromkeys(_listed(request, name) or ()))
    for each in found:
        if each not in allowed:
            raise InvalidRequest(
                f"Invalid `{name}`: {quoted(each)} must be one of: {', '.join(allowed)}.", param=name, code="invalid_value"
            )
    return found
