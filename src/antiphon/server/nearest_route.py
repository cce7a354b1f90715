"""The route that a path was probably meant to be: for the 404 of a path that is nearly one of ours."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

from aiohttp import web

from antiphon.patterns import late_pattern
from antiphon.server.paths import all_paths

# How alike two words must be: 1 is the same.
ALIKE = 0.8
# What is longer is compared with nothing, so that nobody can make the gateway compare for long.
LONGEST, MOST_SEGMENTS, LONGEST_WORD = 200, 8, 32
# In place of what a client puts there, such as an id.
ANY = "{}"
# What base URLs have too much of: /v1/v1/responses, /api/v1/responses.
SURPLUS = frozenset({"api", "v1", "openai"})
_PLACEHOLDER = late_pattern(r"\{[^}]*\}")
_VERSION = late_pattern(r"v\d")


class KnownPath:
    def __init__(self, path: str, methods: Sequence[str]) -> None:
        self.methods = methods
        self.segments = _PLACEHOLDER.sub(ANY, path).strip("/").split("/")
        self._words = sum(segment != ANY for segment in self.segments)

    def likeness(self, asked: Sequence[str], alike: Callable[[str, str], float]) -> tuple[float, int]:
        """That of the words that differ most. Of two that are as alike, the one with more words is nearer."""
        if len(asked) != len(self.segments):
            return 0.0, 0
        least = 1.0
        for segment, own in zip(asked, self.segments, strict=True):
            least = min(least, 1.0 if own == ANY else alike(segment, own))
            if least < ALIKE:
                break
        return least, self._words

    def filled(self, asked: Sequence[str]) -> str:
        """The path, with what the client has put in the place of an id."""
        return "/" + "/".join(segment if own == ANY else own for segment, own in zip(asked, self.segments, strict=True))


class NearestRoute:
    def __init__(self, api: Iterable[web.RouteDef], others: Iterable[web.RouteDef]) -> None:
        """`api`: routes that are served under several prefixes."""
        self._api, self._others = api, others

    @cached_property
    def _known(self) -> Sequence[KnownPath]:
        """Of a gateway whose clients know their paths, it is never needed."""
        return [KnownPath(path, methods) for path, methods in _by_path(self._api, self._others).items()]

    def of(self, method: str, path: str) -> str | None:
        """`POST /v1/responses`. None: nothing is like it."""
        if len(path) > LONGEST or path.count("/") > MOST_SEGMENTS:
            return None
        alike = lru_cache(None)(_alike)
        for asked in _without_surplus(path.strip("/").split("/")):
            nearest = max(self._known, key=lambda known: known.likeness(asked, alike))
            if nearest.likeness(asked, alike)[0] >= ALIKE:
                return f"{method if method in nearest.methods else nearest.methods[0]} {nearest.filled(asked)}"
        return None


def _without_surplus(segments: list[str]) -> Iterator[list[str]]:
    """The path; then without its empty segments, and without its first ones, as long as those may be too much."""
    yield segments
    if "" in segments:
        segments = [segment for segment in segments if segment]
        yield segments
    while len(segments) > 1 and segments[0].lower() in SURPLUS:
        segments = segments[1:]
        yield segments


def _alike(asked: str, own: str) -> float:
    asked = asked.lower()
    if asked == own or (_VERSION.fullmatch(asked) and _VERSION.fullmatch(own)):
        return 1.0
    if len(asked) > LONGEST_WORD:
        return 0.0
    matcher = SequenceMatcher(None, asked, own, autojunk=False)
    # Each of the first two is a bound of the last one, and much cheaper.
    might_be = matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE
    return matcher.ratio() if might_be else 0.0


def _by_path(api: Iterable[web.RouteDef], others: Iterable[web.RouteDef]) -> Mapping[str, list[str]]:
    methods: dict[str, list[str]] = {}
    for path, method in _served(api, others):
        methods.setdefault(path, []).append(method)
    return methods


def _served(api: Iterable[web.RouteDef], others: Iterable[web.RouteDef]) -> Iterator[tuple[str, str]]:
    for route in api:
        for path in all_paths(route.path):
            yield path, route.method
    for route in others:
        yield route.path, route.method
