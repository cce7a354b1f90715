"""The paths under which clients look for the API: OpenAI's own, without the version, and those of Azure.

    /v1/responses                                OpenAI
    /responses                                   a base URL without /v1
    /openai/v1/responses                         Azure
    /openai/responses?api-version=…              Azure, with a version that means nothing here
    /openai/deployments/NAME/responses           Azure: NAME is the model of a request that names none

Each may end with a slash.
"""

import re
from collections.abc import Iterable, Iterator

from aiohttp import web

VERSION = "/v1"
PREFIXES = (VERSION, "", "/openai" + VERSION, "/openai")
DEPLOYMENT = "/openai/deployments/{deployment}"
# What is served for one deployment, with all that is below: a client whose base URL has a deployment uses it for every path.
OF_DEPLOYMENTS = tuple(VERSION + path for path in ("/responses", "/chat/completions", "/completions", "/embeddings"))

# The end of a path with a pattern, and its canonical form.
MAYBE_SLASH, _SLASH = "{slash:/?}", "{slash}"

# Where files are uploaded. Other limits count there than for other bodies.
UPLOADS = tuple(VERSION + path for path in ("/files", "/containers/{id}/files"))


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


# Where responses are created, but for those of one deployment.
RESPONSE_PATHS = frozenset(prefix + "/responses" for prefix in PREFIXES)


def canonical_path(request: web.Request) -> str:
    """The path as OpenAI writes it, which is also the engine's."""
    resource = request.match_info.route.resource
    assert resource is not None
    path = resource.canonical.removesuffix(_SLASH).rstrip("/")
    prefix = max((each for each in (*PREFIXES, DEPLOYMENT) if path.startswith(each)), key=len)
    return VERSION + path.removeprefix(prefix)


_UPLOAD = re.compile("|".join(path.replace("{id}", "[^/]+") for upload in UPLOADS for path in all_paths(upload)))


def is_upload(method: str, path: str) -> bool:
    # The pattern is not needed for most: a suffix is found faster.
    return method == "POST" and path.endswith(("/files", "/files/")) and _UPLOAD.fullmatch(path.removesuffix("/")) is not None


def is_uploaded_form(request: web.BaseRequest) -> bool:
    """Its handler reads it piece by piece. Other bodies are read whole, wherever they are sent."""
    return is_upload(request.method, request.path) and is_form(request)


def is_form(request: web.BaseRequest) -> bool:
    return request.content_type == "multipart/form-data"
