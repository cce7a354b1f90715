"""The limits of a gateway, counted by the supervisor over all worker processes."""

from antiphon.settings import Settings
from antiphon.worker_processes.messages import Ask, Note
from antiphon.worker_processes.supervised import Supervised


class SharedLimits:
    def __init__(self, settings: Settings) -> None: ...

    def change(self, settings: Settings) -> None: ...

    def receive(self, sender: Supervised, message: Ask | Note) -> None: ...

    def release(self, worker: Supervised) -> None: ...
