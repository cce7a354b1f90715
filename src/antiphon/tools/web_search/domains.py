"""The domains that a search is limited to. Their subdomains count, too."""

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit


def domains_to_set(given: Iterable[str]) -> frozenset[str]:
    """As clients write them: `example.com`, also with a scheme or a path."""
    return frozenset(host for each in given if (host := _host(each if "//" in each else f"//{each}")))


def is_allowed(url: str, domains: Collection[str]) -> bool:
    if not domains:
        return True
    labels = _host(url).split(".")
    return any(".".join(labels[at:]) in domains for at in range(len(labels)))


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return _ascii(host.rstrip(".").removeprefix("*."))


def _ascii(host: str) -> str:
    """As the internet writes names with other letters."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host
