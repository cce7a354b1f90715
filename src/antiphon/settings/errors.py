"""What is wrong with a setting, in words that a person can act on: which one, where it was set, and what is allowed."""

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from msgspec import inspect

LONGEST_VALUE = 80
# What their values say, or may contain, is for nobody's eyes.
SECRET = frozenset({"api_key", "admin_key", "metrics_key", "keys", "upstream_key", "seal_key", "store"})
ADDRESS = "must be http://HOST:PORT or https://HOST, with or without /v1"


class SettingsError(Exception):
    """A setting is unknown or invalid. The message names the setting and its source."""


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """A sentence that names what was probably meant, or nothing. `prefix`: what all of the names begin with besides."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f" Did you mean {prefix}{close[0]}?" if close else ""


def shown(name: str, value: Any) -> str:
    """A value as a message may show it, after a comma; nothing, if it may be a secret."""
    if name in SECRET:
        return ""
    text = repr(without_credentials(value) if isinstance(value, str) else value)
    return f", not {text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + '…'}"


def without_credentials(url: str) -> str:
    """`user:password@` may stand before the host, also where there is no scheme."""
    head, at, rest = url.rpartition("@")
    if not at:
        return url
    scheme, slashes, _ = head.partition("//")
    return f"{scheme}//{rest}" if slashes else rest


# ---- what is allowed -------------------------------------------------------------------------------------------------


def allowed(type: inspect.Type) -> str:
    """What a setting of this type must be."""
    match type:
        case inspect.UnionType(types=types):
            return " or ".join(allowed(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType(values=values):
            return f"one of: {', '.join(map(str, values))}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_bounds(type)}"
        case inspect.FloatType():
            return f"a number{_bounds(type)}"
        case inspect.VarTupleType() | inspect.ListType():
            return "a text or a list of texts"
        case inspect.DictType():
            return "a table: NAME = VALUE in the file, NAME=VALUE in the environment"
    return "a text"


def _bounds(type: inspect.IntType | inspect.FloatType) -> str:
    if type.ge is not None and type.le is not None:
        return f" from {type.ge:g} to {type.le:g}"
    bounds = {" above {:g}": type.gt, ", at least {:g}": type.ge, " below {:g}": type.lt, ", at most {:g}": type.le}
    return "".join(words.format(bound) for words, bound in bounds.items() if bound is not None)


# ---- addresses of engines --------------------------------------------------------------------------------------------


class WrongAddress(NamedTuple):
    """Why something cannot be the address of an engine, and a sentence about what was probably meant, or nothing."""

    problem: str
    hint: str = ""


def wrong_address(url: str) -> WrongAddress | None:
    """None: it can be one. `dns+` before it makes an engine of each address of its name."""
    try:
        parts = urlsplit(url.removeprefix("dns+"))
        host = parts.hostname
    except ValueError:
        return WrongAddress(f"{ADDRESS}; an IPv6 address stands in brackets")
    if parts.scheme not in ("http", "https") or not host:
        meant = f"http://{without_credentials(url)}"
        is_meant = "://" not in url and url != "" and wrong_address(meant) is None
        return WrongAddress(ADDRESS, f" Did you mean {meant}?" if is_meant else "")
    if not _has_valid_port(parts):
        return WrongAddress(f"{ADDRESS}; the port must be from 1 to 65535")
    if parts.query or parts.fragment:
        return WrongAddress(f"{ADDRESS}, and nothing after it")
    if any(letter.isspace() or not letter.isprintable() for letter in url):
        return WrongAddress(f"{ADDRESS}, without spaces")
    return None


def _has_valid_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False
