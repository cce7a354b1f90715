"""Passwords in the addresses of engines: sent to the engine, and shown to nobody."""

import base64
import logging

import pytest
from support.engine import MockEngine, Refusal
from support.gateway import running_gateway

from antiphon.engines.replies import Address, location_to_words, split_credentials
from antiphon.logs import JsonFormatter


def basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


ADDRESSES = {
    "http://host:1/v1": Address("http://host:1/v1"),
    "http://user:pass@host:1/v1": Address("http://host:1/v1", basic("user:pass")),
    "https://user@host": Address("https://host", basic("user:")),
    "http://user:p@ss@host/a@b": Address("http://host/a@b", basic("user:p@ss")),
    "http://us%40er:p%2Fss@host": Address("http://host", basic("us@er:p/ss")),
    "user:pass@host:1": Address("host:1", basic("user:pass")),
    "//user:pass@host": Address("//host", basic("user:pass")),
    "http://host/a@b": Address("http://host/a@b"),
    "http://[::1]:8000": Address("http://[::1]:8000"),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_credentials_are_taken_out_of_an_address(url: str) -> None:
    assert split_credentials(url) == ADDRESSES[url]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://user:pass@host/a?token=secret#x", "http://host/a"),
        ("/login?next=secret", "/login"),
        ("", "nowhere"),
        ("http://h\u00f6st/\x00 x", "http://h?st/??x"),
        ("http://host/" + "a" * 1000, "http://host/" + "a" * 188),
    ],
)
def test_the_target_of_a_redirect_is_shown_without_secrets(location: str, words: str) -> None:
    assert location_to_words(location) == words


async def test_a_password_in_the_address_of_an_engine_is_used_and_never_shown(
    engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    address = engine.url.replace("http://", "http://user:secret@")
    engine.will(Refusal(401, {"error": {"message": "no"}}))
    with caplog.at_level(logging.DEBUG):
        async with running_gateway(address, upstream_key="other-secret", retries=0) as gateway:
            shown = [await gateway.get("/ready"), await gateway.post({"input": "Hi"}), await gateway.post({"input": "Hi"})]
            assert [status for status, _ in shown] == [200, 502, 200]
            assert shown[0][1]["engines"][0]["url"] == engine.url
            assert engine.headers[-1]["Authorization"] == basic("user:secret")
            await engine.stop()
            shown += [await gateway.post({"input": "Hi"}), await gateway.get("/ready")]
            assert [status for status, _ in shown[3:]] == [503, 503]
            assert engine.url in shown[4][1]["error"]["message"]
            shown.append((0, dict(gateway.headers)))
    logged = [JsonFormatter().format(record) for record in caplog.records]
    assert logged
    assert "secret" not in repr(shown) + repr(logged)
