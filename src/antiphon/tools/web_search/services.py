"""Services that search the web over HTTP: how each is asked, and what its answers look like. One row for each."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, field

from antiphon.core.hosted.search_results import SearchResult, clean
from antiphon.core.hosted.web_search import UserLocation


class Query(Struct, frozen=True):
    words: str
    # How many results are wanted.
    most: int
    domains: frozenset[str] = frozenset()
    location: UserLocation = UserLocation()


class ServiceRequest(Struct, frozen=True):
    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None


class SearchService(Struct, frozen=True):
    """`url`: where it is, unless the settings say so. `ask`: the request, by the query and the key."""

    ask: Callable[[Query, str], ServiceRequest]
    rows: Callable[[Any], Any]
    # The members of a row that have the URL, the title and the text.
    members: tuple[str, str, str]
    url: str | None = None
    needs_key: bool = True
    # What to look at if it refuses, by the status of its answer.
    hints: Mapping[int, str] = field(default_factory=dict)


# Countries that Brave knows, and their names for Tavily.
COUNTRIES = {
    "AR": "argentina",
    "AT": "austria",
    "AU": "australia",
    "BE": "belgium",
    "BR": "brazil",
    "CA": "canada",
    "CH": "switzerland",
    "CL": "chile",
    "CN": "china",
    "DE": "germany",
    "DK": "denmark",
    "ES": "spain",
    "FI": "finland",
    "FR": "france",
    "GB": "united kingdom",
    "ID": "indonesia",
    "IN": "india",
    "IT": "italy",
    "JP": "japan",
    "KR": "south korea",
    "MX": "mexico",
    "MY": "malaysia",
    "NL": "netherlands",
    "NO": "norway",
    "NZ": "new zealand",
    "PH": "philippines",
    "PL": "poland",
    "PT": "portugal",
    "RU": "russia",
    "SA": "saudi arabia",
    "SE": "sweden",
    "TR": "turkey",
    "TW": "taiwan",
    "US": "united states",
    "ZA": "south africa",
}
# Most that Brave and Tavily return at once; what Brave accepts as a query; and domains that fit into one.
MOST_RESULTS = 20
LONGEST_QUERY = 400
MOST_WORDS = 50
MOST_SITES = 5
# More of an answer is not looked at.
MOST_ROWS = 100


def _with_sites(query: Query) -> str:
    """Most search engines know `site:`. What they return beside these domains is left out later."""
    if not query.domains or len(query.domains) > MOST_SITES:
        return query.words
    return f"{query.words} ({' OR '.join(f'site:{domain}' for domain in sorted(query.domains))})"


def _most(query: Query) -> int:
    """Of results that are filtered later, as many as there are."""
    return MOST_RESULTS if query.domains else min(query.most, MOST_RESULTS)


def _country(query: Query) -> str | None:
    country = (query.location.country or "").upper()
    return country if country in COUNTRIES else None


def _ask_searxng(query: Query, key: str) -> ServiceRequest:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return ServiceRequest("GET", "/search", {"q": _with_sites(query), "format": "json"}, headers)


def _ask_brave(query: Query, key: str) -> ServiceRequest:
    words = " ".join(_with_sites(query).split()[:MOST_WORDS])[:LONGEST_QUERY]
    params = {"q": words, "count": str(_most(query)), "result_filter": "web", "text_decorations": "false"}
    if (country := _country(query)) is not None:
        params["country"] = country
    return ServiceRequest("GET", "/res/v1/web/search", params, {"X-Subscription-Token": key, **_brave_location(query.location)})


def _brave_location(location: UserLocation) -> dict[str, str]:
    headers = {
        "X-Loc-City": location.city,
        "X-Loc-State-Name": location.region,
        "X-Loc-Country": location.country,
        "X-Loc-Timezone": location.timezone,
    }
    # A header has only these characters.
    return {name: value for name, value in headers.items() if value and value.isascii() and value.isprintable()}


def _ask_tavily(query: Query, key: str) -> ServiceRequest:
    body: dict[str, Any] = {"query": query.words[:LONGEST_QUERY], "max_results": _most(query), "search_depth": "basic"}
    if query.domains:
        body["include_domains"] = sorted(query.domains)
    if (country := _country(query)) is not None:
        body["country"] = COUNTRIES[country]
    return ServiceRequest("POST", "/search", headers={"Authorization": f"Bearer {key}"}, json=body)


SERVICES: Mapping[str, SearchService] = {
    "searxng": SearchService(
        _ask_searxng,
        lambda answer: answer["results"],
        ("url", "title", "content"),
        needs_key=False,
        hints={403: "JSON must be among `search.formats` of its settings.yml"},
    ),
    "brave": SearchService(
        _ask_brave,
        # Without a result there is no `web`.
        lambda answer: answer.get("web", {}).get("results", []),
        ("url", "title", "description"),
        url="https://api.search.brave.com",
        hints={401: "its key is wrong", 422: "its key is wrong, or it does not take the query"},
    ),
    "tavily": SearchService(
        _ask_tavily,
        lambda answer: answer["results"],
        ("url", "title", "content"),
        url="https://api.tavily.com",
        hints={401: "its key is wrong", 432: "its plan is used up", 433: "its plan is used up"},
    ),
}


def rows_to_results(rows: Iterable[Any], members: tuple[str, str, str]) -> Iterable[SearchResult]:
    """What is no result, or leads nowhere, is left out."""
    url, title, text = members
    for row in islice(rows, MOST_ROWS):
        address = row.get(url) if isinstance(row, dict) else None
        if isinstance(address, str) and address.startswith(("http://", "https://")):
            yield SearchResult(address, clean(row.get(title)), clean(row.get(text)))
