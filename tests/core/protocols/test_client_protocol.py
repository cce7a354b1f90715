"""What every client protocol has to have."""

import pytest

from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.responses.protocol import RESPONSES, RESPONSES_WEBSOCKET
from antiphon.core.protocols.table import PROTOCOLS


def test_a_protocol_without_one_of_its_methods_cannot_be_made() -> None:
    class Half(ClientProtocol):
        name = "half"
        paths = {"/half": "POST"}

    with pytest.raises(TypeError, match=r"encoder.*error.*read.*whole"):
        Half()  # type: ignore[abstract]


def test_the_first_of_its_paths_stands_for_the_others() -> None:
    assert (RESPONSES.path, RESPONSES_WEBSOCKET.path) == ("/v1/responses", "/v1/responses")


def test_the_protocols_have_different_names_and_paths() -> None:
    assert PROTOCOLS[0] is RESPONSES
    assert len({each.name for each in PROTOCOLS}) == len(PROTOCOLS)
    paths = [path for each in PROTOCOLS for path in each.paths]
    assert len(set(paths)) == len(paths)
    assert all(name == name.lower() for each in PROTOCOLS for name in each.own_headers)
