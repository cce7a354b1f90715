"""Which transport is chosen, and what happens when aiohttp changes."""

import logging

import aiohttp
import pytest

from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.sources import load
from antiphon.transport import choose, make_session, transport_of
from antiphon.transport.choice import find_missing

GONE = ("aiohttp.streams.StreamReader.feed_data",)


def test_the_installed_aiohttp_has_all_that_the_fast_transport_needs() -> None:
    assert find_missing() == ()
    assert choose("auto").name == "fast"
    assert choose("fast").name == "fast"
    assert choose("plain").name == "plain"


async def test_without_the_internals_the_plain_transport_is_used_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    async with make_session("auto", lambda: GONE) as session:
        assert transport_of(session).name == "plain"
    (line,) = caplog.records
    assert (line.levelname, line.message) == ("WARNING", "transport_is_plain")
    assert line.members == {"aiohttp": aiohttp.__version__, "missing": list(GONE)}  # type: ignore[attr-defined]


def test_the_fast_transport_cannot_be_set_without_the_internals() -> None:
    with pytest.raises(SettingsError, match=r"`transport` cannot be fast .* lacks aiohttp\.streams\.StreamReader\.feed_data"):
        choose("fast", lambda: GONE)


def test_the_plain_transport_can_be_set_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    assert choose("plain", lambda: GONE).name == "plain"
    assert not caplog.records


def test_the_transport_is_a_setting() -> None:
    assert Settings().transport == "auto"
    assert load({}, {"ANTIPHON_TRANSPORT": "plain"}).transport == "plain"
    with pytest.raises(SettingsError, match="transport must be one of: auto, fast, plain"):
        load({}, {"ANTIPHON_TRANSPORT": "quick"})


async def test_a_session_knows_its_transport() -> None:
    for name in ("fast", "plain"):
        async with make_session(name) as session:
            assert transport_of(session).name == name
            # Compressing a stream of deltas costs more than it saves.
            assert session.headers["Accept-Encoding"] == "identity"
    async with aiohttp.ClientSession() as session:
        assert transport_of(session).name == "plain"
