"""The table of routes: what it says about bodies."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from aiohttp import web

from antiphon.core.protocols.responses.protocol import ResponsesProtocol
from antiphon.server import bodies
from antiphon.server.bodies import Bodies
from antiphon.server.paths import under_all_paths
from antiphon.server.routes.table import API_ROUTES, ROUTES, RouteTable, route_table

# They have nothing to read, or a form.
WITHOUT = ("/cancel", "/files", "/parts")
READS = re.compile(r"request\.(read|json|text|post|content)\b")


def test_every_route_that_takes_a_body_says_how_large_it_may_be() -> None:
    for route in ROUTES:
        assert isinstance(route, web.RouteDef)
        if route.method != "POST":
            assert route.method in ("GET", "DELETE")
        elif isinstance(route.handler, partial):
            assert isinstance(route.handler.keywords["bodies"], Bodies)
        else:
            assert route.path.removesuffix("/").removesuffix("{slash:/?}").endswith(WITHOUT)


def test_no_handler_reads_a_body_past_the_table() -> None:
    """A form is read piece by piece, and what is relayed is not read at all."""
    found = {path.name for path in Path(bodies.__file__).parent.rglob("*.py") if READS.search(path.read_text())}
    assert found == {"bodies.py", "multipart.py", "siblings.py"}


class Completions(ResponsesProtocol):
    paths: ClassVar[Mapping[str, str]] = {"/v1/completions": "POST", "/complete": "POST"}


def test_a_protocol_takes_the_place_of_what_was_passed_through() -> None:
    protocol = Completions()
    table = route_table([protocol])
    assert len(table.api) == len(API_ROUTES)
    for path in ("/v1/completions", "/openai/deployments/{deployment}/completions{slash:/?}", "/complete"):
        (handler,) = [route.handler for route in table.served if route.path == path and route.method == "POST"]
        assert isinstance(handler, partial)
        assert handler.keywords["protocol"] is protocol


def resources(table: RouteTable) -> Mapping[str, web.AbstractResource]:
    app = web.Application()
    table.add_to(app)
    return {resource.canonical: resource for resource in app.router.resources()}


def test_two_gateways_share_what_is_no_path_of_a_protocol_of_their_own() -> None:
    one, other = (resources(route_table([Completions()])) for _ in range(2))
    assert one.keys() == other.keys() > {"/v1/responses", "/health"}
    own = {path for path in one if one[path] is not other[path]}
    expected = {path.replace("{slash:/?}", "{slash}") for path in paths_of("/v1/completions")}
    assert own == {"/complete", *expected}


def paths_of(path: str) -> list[str]:
    return [route.path for route in under_all_paths([next(route for route in API_ROUTES if route.path == path)])]
