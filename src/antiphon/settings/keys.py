"""The keys of clients as the settings give them: in plain text or as a hash, with or without a name."""

import ipaddress
import re
import secrets
from collections.abc import Iterator

from antiphon.errors import counted
from antiphon.ids import ADMIN, HASH_BYTES, hash_of_key
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings

# How a key begins that Antiphon has made: a scanner for secrets can find it.
PREFIX = "sk-antiphon-"
RANDOM_BYTES = 32
# How a hash begins in the settings. The same as `printf %s KEY | b2sum -l 128`.
HASHED = "blake2b:"
_HASH = re.compile(rf"[0-9a-f]{{{2 * HASH_BYTES}}}")
# What TOML takes without quotation marks.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def to_hashed(key: str) -> str:
    return HASHED + hash_of_key(key.encode())


def check_name(name: str, setting: str = "keys") -> None:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{setting}: {name!r} is not a name. Use 1 to 64 letters, digits, - and _")
    if name == ADMIN:
        raise SettingsError(f"{setting}: the name {ADMIN!r} belongs to admin_key. Choose another name")
    if _HASH.fullmatch(name):
        raise SettingsError(f"{setting}: {name!r} looks like the hash of a key. Choose another name")


def key_owners(settings: Settings) -> dict[str, str]:
    """By the hash of each key, the owner of what it stores. Without a name, that is the hash itself."""
    unnamed = {hash_of_key(key.encode()) for key in settings.api_key}
    owners: dict[str, str] = {}
    for hash, owner in _named(settings):
        if owners.setdefault(hash, owner) != owner:
            raise SettingsError(f"keys: {owners[hash]} and {owner} have the same key. Give each name a key of its own")
    return {hash: hash for hash in unnamed} | owners


def earlier_owners(settings: Settings) -> dict[str, str]:
    """By the owner that each key with a name had before it got its name: the owner that it has now."""
    return dict(_named(settings))


def metrics_readers(settings: Settings) -> dict[str, str]:
    """By the hash of each key that may read the metrics."""
    return {_hash(key, "metrics_key"): "metrics" for key in settings.metrics_key}


def needs_key(settings: Settings) -> bool:
    return bool(settings.api_key or settings.keys or settings.admin_key)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Any other name may have any address, now or later.
        return host.lower() == "localhost"


def plain_key(settings: Settings) -> str | None:
    """A key that a client on this machine can send. None: there is none, or only hashes are known."""
    named = (key for keys in settings.keys.values() for key in keys)
    return next((key for key in (*settings.api_key, *named) if not key.startswith(HASHED)), None)


def _named(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, keys in settings.keys.items():
        check_name(name)
        for key in keys:
            yield _hash(key, f"keys.{name}"), name
    for key in settings.admin_key:
        yield _hash(key, "admin_key"), ADMIN


def _hash(key: str, setting: str) -> str:
    """Messages never repeat the key."""
    if not key or any(not character.isprintable() or character.isspace() for character in key):
        raise SettingsError(f"{setting} must be a key without spaces, or {HASHED} and a hash")
    if not key.startswith(HASHED):
        return hash_of_key(key.encode())
    hash = key.removeprefix(HASHED).lower()
    if not _HASH.fullmatch(hash):
        got = counted(len(hash), "character")
        raise SettingsError(f"{setting}: after {HASHED} there must be {2 * HASH_BYTES} hexadecimal digits, got {got}")
    return hash
