"""The embedded engine: its model files, its process, and the supervision of that process."""


class CannotEmbed(Exception):
    """The embedded engine cannot run. The message says why, and what to do about it."""


class WrongBytes(CannotEmbed):
    """A source of a model gave something else. What came from it is useless."""
