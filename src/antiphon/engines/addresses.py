"""Addresses of engines. Their passwords are sent to the engine, and never shown: not in errors, logs, headers or `/ready`."""

import base64
import re
from typing import NamedTuple
from urllib.parse import unquote

# The beginning of an address: `user:password@` may stand before the host, with or without a scheme.
_CREDENTIALS = re.compile(r"(?P<scheme>(?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?(?P<credentials>[^/?#]*)@")
LONGEST_LOCATION = 200


class Address(NamedTuple):
    # Without credentials.
    url: str
    # The header that they become.
    authorization: str | None = None


def split_credentials(url: str) -> Address:
    found = _CREDENTIALS.match(url)
    if found is None:
        return Address(url)
    scheme = found["scheme"] or ""
    user, _, password = found["credentials"].partition(":")
    credentials = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode(errors="replace")).decode()
    return Address(scheme + url[found.end() :], f"Basic {credentials}")


def location_to_words(location: str) -> str:
    """The target of a redirect as a person may see it: without credentials, and without a query, which may have a token."""
    url = re.split("[?#]", split_credentials(location.strip()).url, maxsplit=1)[0]
    plain = "".join(letter if "!" <= letter <= "~" else "?" for letter in url)
    return plain[:LONGEST_LOCATION] or "nowhere"
