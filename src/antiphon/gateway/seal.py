"""The lock for sealed text: AES-GCM, with a key that is given or kept in the data directory."""

import base64
import binascii
import hashlib
import os
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.core.sealing import PREFIX, Sealer
from antiphon.settings import Settings, data_directory

NONCE = 12
KEY_FILE = "seal.key"


def load_key(settings: Settings) -> bytes:
    """Any text serves as a key; without one, a key is made once and kept for this user alone."""
    if settings.seal_key:
        return hashlib.sha256(settings.seal_key.encode()).digest()
    path = data_directory(settings) / KEY_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Made whole or not at all, also when two gateways start at once.
        fresh = path.with_name(f"{KEY_FILE}.{secrets.token_hex(8)}")
        fresh.touch(mode=0o600)
        fresh.write_bytes(secrets.token_bytes(32))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        return path.read_bytes()[:32].ljust(32, b"\0")
    except OSError:
        # A home that cannot be written: what is sealed now opens until the gateway stops.
        return secrets.token_bytes(32)


def make_sealer(key: bytes) -> Sealer:
    lock = AESGCM(key)

    def seal(text: str) -> str:
        nonce = secrets.token_bytes(NONCE)
        sealed = nonce + lock.encrypt(nonce, text.encode("utf-8", "replace"), PREFIX.encode())
        return PREFIX + base64.urlsafe_b64encode(sealed).decode()

    def open_sealed(blob: str) -> str | None:
        if not blob.startswith(PREFIX):
            return None
        try:
            sealed = base64.urlsafe_b64decode(blob.removeprefix(PREFIX))
            return lock.decrypt(sealed[:NONCE], sealed[NONCE:], PREFIX.encode()).decode()
        except (binascii.Error, ValueError, InvalidTag):
            return None

    return Sealer(seal, open_sealed)
