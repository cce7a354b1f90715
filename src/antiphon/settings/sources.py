"""Where settings come from: a flag overrides the environment, which overrides the file, which overrides the defaults."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from antiphon.settings.errors import SettingsError, allowed, did_you_mean, shown, wrong_address
from antiphon.settings.groups import read_group
from antiphon.settings.settings import PREFIX, Settings

# Settings that are addresses of engines.
ADDRESSES = frozenset({"upstream"})
# Settings that take several values.
LISTS = frozenset(
    (
        *("upstream", "api_key", "admin_key", "metrics_key", "cors_origins", "allowed_hosts", "fetch_hosts"),
        *("chat_pass_models", "chat_pass_keys"),
    )
)
# Settings that give names to values.
TABLES = frozenset({"model_names"})
# Settings that give names to lists.
TABLES_OF_LISTS = frozenset({"keys"})
# Settings that have settings of their own. Only the file can have them.
GROUPS = frozenset({"batches", "files", "mcp", "tools", "usage", "vector_stores", "webhooks"})


# Flags that have another name than their setting.
FLAGS: Mapping[str, str] = {"help": "--model-help", "model_names": "--model-name"}
# Names of the environment that are no settings, after the prefix.
OTHER_VARIABLES = frozenset({"CONFIG", "CODEX_KEY"})
# Of a value such as tcp://10.0.0.1:8484.
SERVICE_LINK = (
    " Kubernetes sets it for a service that is called antiphon: give the service another name, or the pod "
    "`enableServiceLinks: false`."
)
# Where a setting was given, for a person: by its name.
Where = Callable[[str], str]


def load(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ, file: Path | None = None) -> Settings:
    """A flag that was not given is None or empty in `flags`."""
    values: dict[str, Any] = {}
    file = file or _default_file(environment)
    if file is not None:
        text = _read_file(file)
        _merge(values, _from_file(file, text), partial(_place_in_file, file, text))
    _merge(values, _from_environment(environment), _variable)
    given = {name: value for name, value in flags.items() if value not in (None, [], ())}
    _merge(values, given, lambda name: FLAGS.get(name, f"--{name.replace('_', '-')}"))
    return msgspec.convert(values, Settings, strict=False)


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence for each name that looks like a setting and is none. It may be for another version, or another program."""
    known = {name.upper() for name in Settings.__struct_fields__} | OTHER_VARIABLES
    names = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    unknown = [name for name in names if name not in known]
    return [f"{PREFIX}{name} is not a setting, and has no effect.{did_you_mean(name, known, PREFIX)}" for name in unknown]


def _merge(values: dict[str, Any], layer: Mapping[str, Any], where: Where) -> None:
    for name, given in layer.items():
        try:
            value = _listed(name, given)
        except SettingsError as invalid:
            raise SettingsError(f"{invalid} ({where(name)})") from None
        if name in GROUPS:
            value = read_group(name, value, _group_type(name), where)
        else:
            _check(name, value, where)
        values[name] = value


def _check(name: str, value: Any, where: Where) -> None:
    """Of one setting: the others have their defaults."""
    try:
        msgspec.convert({name: value}, Settings, strict=False)
    except msgspec.ValidationError:
        fields = {field.name: field.type for field in msgspec.inspect.type_info(Settings).fields}  # type: ignore[attr-defined]
        hint = SERVICE_LINK if isinstance(value, str) and value.startswith("tcp://") else ""
        raise SettingsError(f"{name} must be {allowed(fields[name])}{shown(name, value)} ({where(name)}).{hint}") from None
    for each in value if name in ADDRESSES else ():
        if (wrong := wrong_address(each)) is not None:
            raise SettingsError(f"{name} {wrong.problem}{shown(name, each)} ({where(name)}).{wrong.hint}")


def _group_type(name: str) -> type[msgspec.Struct]:
    types: dict[str, type[msgspec.Struct]] = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    return types[name]


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _default_file(environment: Mapping[str, str]) -> Path | None:
    if given := environment.get(f"{PREFIX}CONFIG"):
        return Path(given)
    here = Path("antiphon.toml")
    return here if here.exists() else None


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as missing:
        raise SettingsError(f"cannot read {path}: {missing.strerror}") from None
    except UnicodeError:
        raise SettingsError(f"{path} is not TOML: it must be text in UTF-8") from None


def _from_file(path: Path, text: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as broken:
        raise SettingsError(f"{path} is not TOML: {broken}") from None
    named = {name.replace("-", "_"): value for name, value in values.items()}
    known = Settings.__struct_fields__
    if unknown := [name for name in named if name not in known]:
        lines = [f"unknown setting {name} ({_place_in_file(path, text, name)}).{did_you_mean(name, known)}" for name in unknown]
        raise SettingsError("\n".join(lines))
    return named


def _place_in_file(path: Path, text: str, name: str) -> str:
    """The file, and the line where the setting seems to be. A setting of a group has dots in its name."""
    table, _, key = name.rpartition(".")
    start = found.end() if table and (found := _find_name(text, table, 0)) is not None else 0
    found = _find_name(text, key, start) or _find_name(text, name.partition(".")[0], 0)
    return f"{path}, line {text.count(chr(10), 0, found.start()) + 1}" if found is not None else str(path)


def _find_name(text: str, name: str, start: int) -> re.Match[str] | None:
    spelled = re.escape(name).replace("_", "[-_]")
    return re.compile(rf"""^[ \t]*\[?[ \t]*["']?{spelled}["']?[ \t]*[\]=.]""", re.MULTILINE).search(text, start)


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name in Settings.__struct_fields__ if (value := environment.get(_variable(name)))}


def _listed(name: str, value: Any) -> Any:
    """A text is a list: of one value, or of several with commas between them. So is a table, of NAME=VALUE."""
    if name in LISTS | TABLES | TABLES_OF_LISTS and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if name in TABLES and isinstance(value, list | tuple):
        return dict(map(_to_pair, value))
    if name in TABLES_OF_LISTS:
        return _to_table_of_lists(name, value)
    return value


def _to_table_of_lists(setting: str, value: Any) -> dict[str, list[Any]]:
    """A name may be repeated. Values may be secrets, so messages name only the place of a wrong one."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list | tuple) and all(isinstance(each, str) and "=" in each for each in value):
        pairs = [tuple(part.strip() for part in each.split("=", 1)) for each in value]
    else:
        raise SettingsError(f"{setting} must be a table: NAME = VALUE in the file, NAME=VALUE in the environment")
    table: dict[str, list[Any]] = {}
    for name, given in pairs:
        values = given if isinstance(given, list | tuple) else [given]
        if not values or not all(isinstance(each, str) for each in values):
            raise SettingsError(f"{setting}.{name} must be a text or a list of texts")
        table.setdefault(name, []).extend(values)
    return table


def _to_pair(text: str) -> tuple[str, str]:
    """A name alone stands for itself."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not name or (equals and not value):
        raise SettingsError(f"{text!r} must be NAME or NAME=VALUE")
    return name, value or name
