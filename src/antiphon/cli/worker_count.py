"""How many processes answer requests. Apart from what supervises them, which a single process need not import."""

import os

from antiphon.app.processes.listening import CannotShare, check_sharing
from antiphon.settings.settings import Settings, SettingsError

NOT_IN_MEMORY = (
    "store = memory: cannot be shared by {workers} worker processes: each would have its own. Set store to sqlite:PATH or "
    "postgresql://…, leave it out for a file in the data directory, or set workers to 1."
)


def worker_count(settings: Settings) -> int:
    """How many processes answer requests. Raises SettingsError if that many cannot share what they must."""
    workers = os.cpu_count() or 1 if settings.workers == "auto" else settings.workers
    if workers == 1:
        return 1
    if (settings.store or "").startswith("memory:"):
        raise SettingsError(NOT_IN_MEMORY.format(workers=workers))
    try:
        check_sharing()
    except CannotShare as reason:
        raise SettingsError(str(reason)) from None
    return workers
