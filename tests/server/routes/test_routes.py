"""The table of routes: what it says about bodies."""

import re
from functools import partial
from pathlib import Path

from aiohttp import web

from antiphon.server import bodies
from antiphon.server.bodies import Bodies
from antiphon.server.routes.table import ROUTES

# They have nothing to read, or a form.
WITHOUT = ("/cancel", "/files")
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
