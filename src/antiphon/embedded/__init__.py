"""The engine that comes with the gateway: its weights, its process, and the supervision of it."""


class CannotEmbed(Exception):
    """The embedded engine cannot be had; the message says why, and what to do about it."""
