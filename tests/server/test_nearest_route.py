"""A path that is nearly one of ours: its 404 names the route that was probably meant."""

import pytest
from support.gateway import GatewayUnderTest
from support.operations import count_calls

from antiphon.server.nearest_route import LONGEST, MOST_SEGMENTS, NearestRoute
from antiphon.server.routes.table import API_ROUTES, OTHER_ROUTES

NEAREST = NearestRoute(API_ROUTES, OTHER_ROUTES)


async def test_a_404_names_the_nearest_route(gateway: GatewayUnderTest) -> None:
    status, answer = await gateway.post({"input": "Hi"}, path="/v1/respones")
    said = "There is no POST /v1/respones here. Did you mean POST /v1/responses?"
    assert (status, answer["error"]["message"]) == (404, said)


async def test_a_404_of_a_path_that_is_like_none_names_none(gateway: GatewayUnderTest) -> None:
    status, answer = await gateway.get("/v1/videos")
    assert (status, answer["error"]["message"]) == (404, "There is no GET /v1/videos here.")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("POST /v1/response", "POST /v1/responses"),
        ("POST /respones", "POST /responses"),
        ("POST /openai/v1/respones", "POST /openai/v1/responses"),
        ("POST /openai/deployments/gpt/respones", "POST /openai/deployments/gpt/responses"),
        ("POST /v1/responses/resp_1/cancle", "POST /v1/responses/resp_1/cancel"),
        ("GET /v1/respones/resp_1", "GET /v1/responses/resp_1"),
        ("POST /v1/response/compact", "POST /v1/responses/compact"),
        ("POST /v1/chat/completion", "POST /v1/chat/completions"),
        ("GET /v1/vectorstores", "GET /v1/vector_stores"),
        ("POST /V1/Responses", "POST /v1/responses"),
        ("POST /v2/responses", "POST /v1/responses"),
        ("POST /v1/v1/responses", "POST /v1/responses"),
        ("POST /api/v1/respones/", "POST /v1/responses"),
        ("POST /v1//responses", "POST /v1/responses"),
        ("PUT /v1/respones", "POST /v1/responses"),
        ("GET /helth", "GET /health"),
    ],
)
def test_what_was_probably_meant(asked: str, meant: str) -> None:
    assert NEAREST.of(*asked.split()) == meant


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages",
        "/v1/fine_tuning/jobs",
        "/v1/realtime/sessions",
        "/v1/threads/files",
        "/v1/foo/resp_0123456789",
        "/favicon.ico",
    ],
)
def test_routes_of_other_servers_are_like_none(path: str) -> None:
    assert NEAREST.of("POST", path) is None


@pytest.mark.parametrize("path", ["/v1/respones/" + "x" * LONGEST, "/v1" * MOST_SEGMENTS + "/respones"])
def test_a_path_of_unreasonable_length_is_compared_with_nothing(path: str) -> None:
    assert NEAREST.of("POST", path) is None
    assert count_calls(lambda: NEAREST.of("POST", path)) < 10


@pytest.mark.parametrize(
    "path",
    ["/v1" * 7 + "/responsex", "/".join(["", *["responsex"] * 8]), "//////responsex", "/" + "e" * 32, "/v1/" + "es" * 90],
)
def test_no_path_takes_long_to_compare(path: str) -> None:
    assert count_calls(lambda: NEAREST.of("POST", path)) < 10_000
