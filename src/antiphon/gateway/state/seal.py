"""Encrypts sealed text with AES-GCM. The key is configured, or generated once and stored in the data directory."""

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.sealing import OWNED_PREFIX, PREFIX, Sealer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from antiphon.core.toolbox.mcp_servers import has_secrets
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse

NONCE_BYTES = 12
KEY_FILE = "seal.key"


def load_key(given: str | None, directory: Path) -> bytes:
    """Any text can be the key. Without one, a key is generated once, in a file that only this user can read."""
    if given:
        return hashlib.sha256(given.encode()).digest()
    path = directory / KEY_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link makes the file appear complete or not at all, even if two gateways start at once.
        temporary = path.with_name(f"{KEY_FILE}.{secrets.token_hex(8)}")
        temporary.touch(mode=0o600)
        temporary.write_bytes(secrets.token_bytes(32))
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        return path.read_bytes()[:32].ljust(32, b"\0")
    except OSError:
        # The data directory is not writable: what is sealed now can be opened only until the gateway stops.
        return secrets.token_bytes(32)


def make_sealer(key: bytes, owner: str = "", earlier: Sequence[str] = ()) -> Sealer:
    """What is sealed for one owner opens for no other. `earlier`: the owners that this one was before; theirs open too.

    Without an owner, because no keys are set, a seal opens for all, like those of the versions that knew no owners.
    """
    bound = OWNED_PREFIX if owner else PREFIX

    def seal(text: str) -> str:
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + _cipher(key).encrypt(nonce, text.encode("utf-8", "replace"), _associated(bound, owner))
        return bound + base64.urlsafe_b64encode(sealed).decode()

    def open_sealed(blob: str) -> str | None:
        if blob.startswith(PREFIX):
            return _decrypt(_cipher(key), blob.removeprefix(PREFIX), [_associated(PREFIX, "")])
        if blob.startswith(OWNED_PREFIX):
            owners = [each for each in (owner, *earlier) if each]
            return _decrypt(_cipher(key), blob.removeprefix(OWNED_PREFIX), [_associated(OWNED_PREFIX, each) for each in owners])
        return None

    return Sealer(seal, open_sealed)


@lru_cache(1)
def _cipher(key: bytes) -> "AESGCM":
    """One for all owners and requests: it keeps no state. Most gateways seal nothing: they save 6 MB without the import."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _associated(prefix: str, owner: str) -> bytes:
    """What a seal is bound to, beside its text."""
    return f"{prefix}{owner}".encode()


def _decrypt(cipher: "AESGCM", encoded: str, associated: Sequence[bytes]) -> str | None:
    """None: it is damaged, or bound to something else."""
    from cryptography.exceptions import InvalidTag

    try:
        sealed = base64.urlsafe_b64decode(encoded)
    except (binascii.Error, ValueError):
        return None
    for each in associated:
        with suppress(ValueError, InvalidTag):
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], each).decode()
    return None


# ---- The request of a background response as it waits in the store: sealed, if it has secrets of its tools -----------

# A body is a JSON object, and begins with a brace, or with white space.
MARK = b"sealed:"


def to_stored_request(body: bytes, request: CreateResponse, sealer: Sealer) -> bytes:
    return MARK + sealer.seal(body.decode("utf-8", "replace")).encode() if has_secrets(request) else body


def from_stored_request(stored: bytes, sealer: Sealer) -> bytes:
    if not stored.startswith(MARK):
        return stored
    body = sealer.open(stored.removeprefix(MARK).decode("utf-8", "replace"))
    if body is None:
        raise ApiError("The stored request cannot be read: it was sealed with another key.", code="stored_request_unreadable")
    return body.encode()
