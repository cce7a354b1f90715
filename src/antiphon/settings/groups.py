"""Settings that have settings of their own, such as `[mcp.servers.NAME]`. Errors name the one that is wrong, and its place."""

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, inspect, structs

from antiphon.settings.errors import SettingsError, allowed, did_you_mean, shown

# What their values say, or may contain, is for nobody's eyes.
SECRET = frozenset({"args", "command", "embedding_key", "embedding_url", "env", "headers", "key", "secret", "url"})
# Where a setting was given, for a person: by its name.
Where = Callable[[str], str]


def read_group(path: str, value: Any, group: type[Struct], where: Where) -> Struct:
    """`path`: its name, with dots. Raises SettingsError."""
    if not isinstance(value, Mapping):
        raise SettingsError(f"{path} must be a table of the file: [{path}] ({where(path)})")
    given = {name.replace("-", "_"): each for name, each in value.items()}
    types = {field.name: field.type for field in structs.fields(group)}
    for name in given:
        if name not in types:
            place = where(f"{path}.{name}")
            raise SettingsError(f"unknown setting {path}.{name} ({place}).{did_you_mean(name, types, f'{path}.')}")
    return group(**{name: _read(f"{path}.{name}", each, types[name], where) for name, each in given.items()})


def _read(path: str, value: Any, type: Any, where: Where) -> Any:
    kind = inspect.type_info(type)
    if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.StructType):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{path} must be a table of the file: [{path}.NAME] ({where(path)})")
        return {name: read_group(f"{path}.{name}", each, kind.value_type.cls, where) for name, each in value.items()}
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if (group := next((each for each in kinds if isinstance(each, inspect.StructType)), None)) is not None:
        return read_group(path, value, group.cls, where)
    if isinstance(value, str) and _is_list(kind):
        value = [value]
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError:
        name = path.rpartition(".")[2]
        wrong = "" if name in SECRET else shown(name, value)
        raise SettingsError(f"{path} must be {_allowed(kind)}{wrong} ({where(path)}).") from None


def _is_list(kind: inspect.Type) -> bool:
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(isinstance(each, inspect.VarTupleType) for each in kinds)


def _allowed(kind: inspect.Type) -> str:
    return "a table of texts" if isinstance(kind, inspect.DictType) else allowed(kind)


# ---- values that mean the same in several tables ---------------------------------------------------------------------

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
