"""Web pages of other origins: which of them may use the API, and the headers by which browsers know."""

from collections.abc import Mapping, Sequence

from aiohttp import web

ALL_ORIGINS = "*"
# What a page may read of an answer beside its body.
EXPOSED = (
    "x-request-id, antiphon-notice, retry-after, x-should-retry, openai-processing-ms, "
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


CROSS_ORIGIN = web.AppKey("cross_origin", CrossOrigin)


def answer_preflight(request: web.Request) -> web.Response | None:
    """None: it is another request."""
    if request.method != "OPTIONS" or not request.app[CROSS_ORIGIN].answers(request):
        return None
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": PREFLIGHT_LIFETIME}
    if asked := request.headers.get("Access-Control-Request-Headers"):
        headers["Access-Control-Allow-Headers"] = asked
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        # A public page that uses a gateway on the user's own machine.
        headers["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=headers)
