"""Values of settings that mean the same in several tables: secrets from the environment, and hosts."""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping

from antiphon.settings.errors import SettingsError

# $NAME, as a whole value, or ${NAME} inside one.
_VARIABLE = re.compile(r"^\$([A-Za-z_][A-Za-z0-9_]*)$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill_variables(place: str, value: str, environment: Mapping[str, str] = os.environ) -> str:
    """Values are secrets: messages name only the variable."""

    def replace(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in environment:
            raise SettingsError(f"{place} needs the environment variable {name}, which is not set")
        return environment[name]

    return _VARIABLE.sub(replace, value)


def check_hosts(place: str, hosts: Iterable[str]) -> None:
    """Raises SettingsError for what is neither a host nor a network."""
    for host in hosts:
        if not (_is_network(host) if "/" in host else _may_be_host(host)):
            examples = "tools.example.com, 10.0.0.5:8000, *.example.com or 10.1.0.0/16"
            raise SettingsError(f"{place} must be hosts or networks, such as {examples}, not {host!r}")


def _is_network(host: str) -> bool:
    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False
    return True


def _may_be_host(host: str) -> bool:
    return bool(host) and "@" not in host and not any(letter.isspace() for letter in host)
