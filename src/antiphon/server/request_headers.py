"""What is checked of every request before its key: whether a web page sends it, and whether its body can be read.

A browser runs code of strangers on the user's machine, where it can reach the gateway.

    Host              Where no key is needed, a name must be known. A stranger can give his own name the address of this
                      machine; his page, which the browser then takes for a page of the gateway, could use all of it.
    Origin            The page must be our own, or one that `cors_origins` names. Browsers keep other pages from reading
                      answers, but let them send requests, and open WebSockets.
    Sec-Fetch-Site    of a request without Origin, for what the inspector shows: the page must be our own. Another page's image,
                      say, is fetched without Origin, and to open a recorded request is much work.
    Content-Type      of a page's POST must be JSON. Browsers send some other types to any server without asking it first.
                      A form that uploads a file needs an Origin instead, which was checked.
    Content-Encoding  must be one that is decoded, for the body would be read as it is otherwise.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from aiohttp import hdrs, web
from multidict import istr

from antiphon.errors import Forbidden, UnsupportedMediaType
from antiphon.server.paths import is_upload
from antiphon.server.request_state import INSPECTOR, PAGE_FILES

ALL_HOSTS = "*"
# How many values of `Host` are remembered, and whether they are allowed.
REMEMBERED = 256
# Names that mean this machine wherever they are looked up, and the one that containers have for the machine they run on.
LOCAL_NAMES = frozenset({"localhost", "host.docker.internal"})
# Says nothing but that the server runs. Health checks send whichever name or address they have for it.
FOR_ANYBODY = frozenset({"/health"})
# Decoded by aiohttp; the last two only if their packages are installed, and an error of its parser otherwise.
CODINGS = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})

# Looked up for each request: an `istr`, as those of aiohttp's `hdrs`, is found in half the time of a `str`.
FETCH_SITE = istr("Sec-Fetch-Site")
# What browsers call pages of another origin.
OTHER_SITES = frozenset({"cross-site", "same-site"})
# No other page may embed it, no browser guess its type or keep it.
PRIVATE = {"Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class AllowedHosts:
    """`names`: those that are known beside the local ones, or * for all. `needed`: whether names are checked, which is where
    no key is."""

    def __init__(self, names: Iterable[str], needed: Callable[[], bool]) -> None:
        self._names = LOCAL_NAMES.union(map(host_to_name, names))
        self._needed = needed
        # Clients send the same few. To find out whether one is an address takes longer than the rest of HTTP.
        self._knows = lru_cache(REMEMBERED)(self._is_known)

    def allows(self, host: str) -> bool:
        # Without the header: every browser sends it.
        return not host or self._knows(host) or ALL_HOSTS in self._names or not self._needed()

    def _is_known(self, host: str) -> bool:
        name = host_to_name(host)
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def host_to_name(host: str) -> str:
    """Of a `Host` header: without the port, the brackets of an address, and the dot at the end."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    # An address of version 6 in the settings has no brackets.
    return name if name.count(":") > 1 else name.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    """Every address is safe, not only those of this machine. It is no name that somebody could give another address: a browser
    that sends it has connected to it, and the pages of that origin are the gateway's own. Kubernetes checks pods this way."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# ---- Web pages of other origins: which of them may use the API, and the headers by which browsers know ---------------

ALL_ORIGINS = "*"
# What a page may read of an answer beside its body.
EXPOSED = (
    "x-request-id, antiphon-notice, antiphon-way, retry-after, x-should-retry, openai-processing-ms, "
    "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests"
)
METHODS = "GET, POST, DELETE, OPTIONS"
# Seconds for which a browser need not ask again.
PREFLIGHT_LIFETIME = "600"


class CrossOrigin:
    """`origins`: such as https://example.com, or * for all. None: browsers keep all pages but our own away."""

    def __init__(self, origins: Sequence[str]) -> None:
        self.origins = frozenset(origin.rstrip("/") for origin in origins)

    def allows(self, origin: str | None) -> bool:
        return origin is not None and (ALL_ORIGINS in self.origins or origin in self.origins)

    def headers(self, origin: str | None) -> Mapping[str, str]:
        """Of every answer to a page of this origin."""
        if not self.origins:
            return {}
        if ALL_ORIGINS in self.origins:
            return {"Access-Control-Allow-Origin": ALL_ORIGINS, "Access-Control-Expose-Headers": EXPOSED}
        # The answer to one origin must not be served to another from a cache.
        if origin is None or not self.allows(origin):
            return {"Vary": "Origin"}
        return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED, "Vary": "Origin"}

    def answers(self, request: web.Request) -> bool:
        """This request, an OPTIONS, is a browser's question whether a page may send another one."""
        return "Access-Control-Request-Method" in request.headers and self.allows(request.headers.get("Origin"))


def answer_preflight(request: web.Request, cross_origin: CrossOrigin) -> web.Response | None:
    """None: it is another request."""
    if not cross_origin.answers(request):
        return None
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": PREFLIGHT_LIFETIME}
    if asked := request.headers.get("Access-Control-Request-Headers"):
        headers["Access-Control-Allow-Headers"] = asked
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        # A public page that uses a gateway on the user's own machine.
        headers["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=headers)


# ---- the checks ------------------------------------------------------------------------------------------------------

UNKNOWN_HOST = "The host name {name} is not known here. Name it in the setting allowed_hosts, or set an api_key."


def check_headers(
    request: web.Request, headers: Mapping[str, str], allowed_hosts: AllowedHosts, cross_origin: CrossOrigin
) -> None:
    if request.path not in FOR_ANYBODY:
        if not allowed_hosts.allows(host := headers.get(hdrs.HOST, "")):
            raise Forbidden(UNKNOWN_HOST.format(name=repr(host_to_name(host))), code="host_not_allowed")
        if hdrs.ORIGIN in headers or FETCH_SITE in headers:
            # A page sends it.
            _check_origin(request, cross_origin)
            _check_site(request)
            _check_type(request)
    if hdrs.CONTENT_ENCODING in headers:
        _check_coding(headers[hdrs.CONTENT_ENCODING])


def _check_origin(request: web.Request, cross_origin: CrossOrigin) -> None:
    origin = request.headers.get("Origin")
    # The scheme is not compared: a proxy may have taken off the TLS.
    if origin is None or origin.partition("://")[2] == request.host or cross_origin.allows(origin):
        return
    raise Forbidden(
        "Pages of another origin may not use this server. The setting cors_origins allows it.", code="origin_not_allowed"
    )


def _check_site(request: web.Request) -> None:
    if "Origin" not in request.headers and request.headers.get(FETCH_SITE) in OTHER_SITES and is_private(request.path):
        raise Forbidden("Pages of another site may not use the inspector.", code="origin_not_allowed")


def is_private(path: str) -> bool:
    """Whether it is what the inspector shows. Its page has no data."""
    return path.startswith(INSPECTOR) and not path.startswith(PAGE_FILES)


def _check_type(request: web.Request) -> None:
    is_upload_of_page = "Origin" in request.headers and is_upload(request.method, request.path)
    if request.method == "POST" and request.body_exists and not is_upload_of_page and not _is_json(request):
        raise UnsupportedMediaType("A web page must send JSON, with `Content-Type: application/json`.")


def _is_json(request: web.Request) -> bool:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _check_coding(coding: str) -> None:
    if coding.strip().lower() not in CODINGS:
        raise UnsupportedMediaType(
            f"Unknown Content-Encoding: {coding[:100]!r} must be one of: gzip, deflate, identity.",
            code="unsupported_content_encoding",
        )
