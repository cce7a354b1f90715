"""Where uploaded files are, and what is made of them: a database beside that of the responses, and a folder for their contents.

It is a database of its own because indexing a large file writes much, and nobody who waits for a response should wait for that.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from antiphon.store.sql.database import Database


class FileStore(Struct, frozen=True):
    # It is opened when it is first used.
    database: Database
    # A folder for contents. None: they are kept in the database, because other gateways use it too.
    folder: Callable[[], Path | None]
    # Whether there may be anything in it: otherwise no earlier gateway has left work behind.
    is_used: Callable[[], bool]
    close: Callable[[], Awaitable[None]]
