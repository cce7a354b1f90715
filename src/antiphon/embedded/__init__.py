"""The embedded engine: its model files, its process, and the supervision of that process."""


class CannotEmbed(Exception):
    """The embedded engine cannot run. The message says why, and what to do about it."""
