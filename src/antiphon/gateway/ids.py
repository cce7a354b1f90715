"""Ids: a prefix that names the type of the object, and 192 random bits."""

import secrets


def new_id(prefix: str) -> str:
    """A new random id: `resp_4f0c…`."""
    return f"{prefix}_{secrets.token_hex(24)}"
