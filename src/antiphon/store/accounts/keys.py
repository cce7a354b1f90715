"""Operations on keys that a command has made, and on the limits of names."""

from antiphon.store.account_records import KeyState, StoredKey
from antiphon.store.operations import Operation, Statement, Wake

# The topic of those who let clients in.
KEYS = "keys"

_COLUMNS = ", ".join(StoredKey.__struct_fields__)
_ADD = f"INSERT INTO stored_keys ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5)"
_LIMIT = """
INSERT INTO key_limits (name, limits) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET limits = excluded.limits"""
# One that ends earlier anyhow is left alone.
_END = """
UPDATE stored_keys SET ends_at = $2
WHERE name = $1 AND ($3 = '' OR hash = $3) AND hash <> $4 AND (ends_at IS NULL OR ends_at > $2) RETURNING hash"""


def read() -> Operation[KeyState]:
    keys = yield Statement(f"SELECT {_COLUMNS} FROM stored_keys ORDER BY name, created_at, hash")
    limits = yield Statement("SELECT name, limits FROM key_limits ORDER BY name")
    made = (StoredKey(**dict(zip(StoredKey.__struct_fields__, row, strict=True))) for row in keys)
    return KeyState(tuple(made), tuple((name, bytes(limit)) for name, limit in limits))


def add(key: StoredKey) -> Operation[None]:
    yield Statement(_ADD, [getattr(key, name) for name in StoredKey.__struct_fields__])
    yield Wake(KEYS)


def end(name: str, at: int, hash: str | None) -> Operation[int]:
    """`hash`: of one key of this name; None: all of them. Returns how many there were."""
    ended = yield Statement(_END, (name, at, hash or "", ""))
    yield Wake(KEYS)
    return len(ended)


def rotate(key: StoredKey, at: int) -> Operation[int]:
    """Adds the key, and ends all others of its name."""
    yield Statement(_ADD, [getattr(key, name) for name in StoredKey.__struct_fields__])
    ended = yield Statement(_END, (key.name, at, "", key.hash))
    yield Wake(KEYS)
    return len(ended)


def limit(name: str, limits: bytes | None) -> Operation[None]:
    if limits is None:
        yield Statement("DELETE FROM key_limits WHERE name = $1", (name,))
    else:
        yield Statement(_LIMIT, (name, limits))
    yield Wake(KEYS)
