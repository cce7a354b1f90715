"""Several processes that serve one gateway: a supervisor starts and replaces them, and passes messages between them."""


class CannotServe(Exception):
    """The first worker process could not start. The message says why."""
