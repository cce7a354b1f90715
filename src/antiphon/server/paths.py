"""The paths under which clients look for the API: OpenAI's own, without the version, and those of Azure.

    /v1/responses                                OpenAI
    /responses                                   a base URL without /v1
    /openai/v1/responses                         Azure
    /openai/responses?api-version=…              Azure, with a version that means nothing here
    /openai/deployments/NAME/responses           Azure: NAME is the model of a request that names none

Each may end with a slash.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from aiohttp import web

from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.patterns import late_pattern

VERSION = "/v1"
PREFIXES = (VERSION, "", "/openai" + VERSION, "/openai")
DEPLOYMENT = "/openai/deployments/{deployment}"
# What is served for one deployment, with all that is below: a client whose base URL has a deployment uses it for every path.
OF_DEPLOYMENTS = tuple(VERSION + path for path in ("/responses", "/chat/completions", "/completions", "/embeddings"))

# The end of a path with a pattern, and its canonical form.
MAYBE_SLASH, _SLASH = "{slash:/?}", "{slash}"

# Where files are uploaded. Other limits count there than for other bodies.
UPLOADS = tuple(VERSION + path for path in ("/files", "/containers/{id}/files", "/uploads/{id}/parts"))


def under_all_paths(routes: Iterable[web.RouteDef]) -> Iterator[web.RouteDef]:
    """The same routes under every prefix; a path without a version is served as it is."""
    for route in routes:
        for path in all_paths(route.path):
            # One pattern for both: there are hundreds, and each is compiled when the gateway starts.
            for ending in (MAYBE_SLASH,) if "{" in path else ("", "/"):
                yield web.RouteDef(route.method, path + ending, route.handler, route.kwargs)


def all_paths(path: str) -> Iterator[str]:
    """Where a route of the API is served."""
    rest = path.removeprefix(VERSION)
    for prefix in PREFIXES:
        yield prefix + rest
    if path.startswith(OF_DEPLOYMENTS):
        yield DEPLOYMENT + rest


def canonical_path(request: web.Request) -> str:
    """The path as OpenAI writes it, which is also the engine's."""
    resource = request.match_info.route.resource
    assert resource is not None
    return _canonical(resource.canonical)


@cache
def _canonical(route: str) -> str:
    """As many as there are routes."""
    path = route.removesuffix(_SLASH).rstrip("/")
    prefix = max((each for each in (*PREFIXES, DEPLOYMENT) if path.startswith(each)), key=len)
    return VERSION + path.removeprefix(prefix)


_UPLOAD = late_pattern("|".join(path.replace("{id}", "[^/]+") for upload in UPLOADS for path in all_paths(upload)))


def is_upload(method: str, path: str) -> bool:
    # The pattern is not needed for most: a suffix is found faster.
    return (
        method == "POST"
        and path.endswith(("/files", "/files/", "/parts", "/parts/"))
        and _UPLOAD.fullmatch(path.removesuffix("/")) is not None
    )


def is_uploaded_form(request: web.BaseRequest) -> bool:
    """Its handler reads it piece by piece. Other bodies are read whole, wherever they are sent."""
    return is_upload(request.method, request.path) and is_form(request)


def is_form(request: web.BaseRequest) -> bool:
    return request.content_type == "multipart/form-data"


# ---- the protocols of clients ----------------------------------------------------------------------------------------


# What differs from request to request.
_PART = late_pattern(r"\{[^}]*\}")


def speaks(request: web.BaseRequest, protocol: ClientProtocol) -> bool:
    """Whether its client speaks this protocol, also at a path that several have: by its headers."""
    return any(name in request.headers for name in protocol.own_headers)


def has_version(path: str) -> bool:
    return path.startswith(f"{VERSION}/")


def served_paths(path: str) -> list[str]:
    """Where a path of a protocol is served: under every prefix, if it has a version."""
    return [*all_paths(path)] if has_version(path) else [path]


class ProtocolPaths:
    """Which protocol a request is in: by its path, or by its headers, where no other has the path. Otherwise the first one."""

    def __init__(self, protocols: Sequence[ClientProtocol]) -> None:
        _check_paths(protocols)
        self.default, *self.others = protocols
        self.key_headers = [each.key_header for each in protocols if each.key_header is not None]

    @property
    def direct(self) -> frozenset[str]:
        """Where most requests are POSTed: the paths that have no parts that differ."""
        created = (path for each in (self.default, *self.others) for path, method in each.paths.items() if method == "POST")
        return frozenset(path for each in created for path in served_paths(each) if "{" not in path)

    def protocol_of(self, path: str, headers: Mapping[str, str]) -> ClientProtocol:
        by_path = (each for each in self.others if any(_is_below(path, own) for own in each.paths))
        by_headers = (each for each in self.others if any(name in headers for name in each.own_headers))
        return next(by_path, None) or next(by_headers, None) or self.default


def _check_paths(protocols: Sequence[ClientProtocol]) -> None:
    """A path has one protocol. Raises ValueError."""
    taken: dict[str, str] = {}
    for protocol in protocols:
        for path in (served for own in protocol.paths for served in served_paths(own)):
            if (other := taken.setdefault(path, protocol.name)) != protocol.name:
                raise ValueError(f"two client protocols have the path {path}: {other} and {protocol.name}")


def _is_below(path: str, own: str) -> bool:
    """Whether a request is sent there, under any prefix, or to what would be below it."""
    patterns = ("[^/]+".join(map(re.escape, _PART.split(each))) for each in served_paths(own))
    return any(re.match(rf"{pattern}(?:/|$)", path) for pattern in patterns)
