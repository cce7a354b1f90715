"""The keys that clients may send, and whose each one is. Only hashes are kept."""

import hmac
from collections.abc import Mapping
from hashlib import blake2b

# The owner of what the admin key creates. No other key can have this name.
ADMIN = "admin"
HASH_BYTES = 16


def hash_of_key(key: bytes) -> str:
    """Fast on purpose: keys are random and long, so nobody finds one by trying, however fast the hash is.

    Where a key has no name, this is the owner of what it stores. It never changes: otherwise all of that would be lost.
    """
    return blake2b(key, digest_size=HASH_BYTES).hexdigest()


class Keyring:
    """By the hash of each key, its owner. Empty: no key is needed."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.replace(owners)

    def replace(self, owners: Mapping[str, str]) -> None:
        """From the next request on."""
        self._owners = [(hash.encode(), owner) for hash, owner in owners.items()]

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owner_of(self, key: bytes) -> str | None:
        """None: the key is unknown."""
        given = hash_of_key(key).encode()
        # Every key is compared, and each in constant time.
        found = [owner for hash, owner in self._owners if hmac.compare_digest(given, hash)]
        return found[0] if found else None
