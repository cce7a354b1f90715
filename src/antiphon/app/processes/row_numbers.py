"""Numbers for the rows of the inspector that rise over all worker processes: one file, which is locked for each number."""

import os
from pathlib import Path

SIZE = 8


class RowNumbers:
    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)

    def next(self) -> int:
        """Few requests a second are recorded: four calls of the system for each are no burden."""
        import fcntl

        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            number = int.from_bytes(os.pread(self._file, SIZE, 0)) + 1
            os.pwrite(self._file, number.to_bytes(SIZE), 0)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        return number
