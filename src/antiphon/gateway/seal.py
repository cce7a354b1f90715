"""Encrypts sealed text with AES-GCM. The key is configured, or generated once and stored in the data directory."""

import base64
import binascii
import hashlib
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.core.sealed_text import PREFIX, Sealer

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


def make_sealer(key: bytes) -> Sealer:
    cipher = AESGCM(key)

    def seal(text: str) -> str:
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + cipher.encrypt(nonce, text.encode("utf-8", "replace"), PREFIX.encode())
        return PREFIX + base64.urlsafe_b64encode(sealed).decode()

    def open_sealed(blob: str) -> str | None:
        if not blob.startswith(PREFIX):
            return None
        try:
            sealed = base64.urlsafe_b64decode(blob.removeprefix(PREFIX))
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], PREFIX.encode()).decode()
        except (binascii.Error, ValueError, InvalidTag):
            return None

    return Sealer(seal, open_sealed)
