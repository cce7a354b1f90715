"""The texts of stored files, read in processes that can be killed."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from antiphon.core.check_work import CheckOutcome, CheckWork, FileWork

# Seconds for reading one file. Whole documents take longer than what the gateway checks while a client waits.
DEADLINE = 60.0
# How many files are read at once, and how many of them may be of one owner.
MOST_PROCESSES = 2
OWN_PROCESSES = 1

TOO_SLOW = "The file cannot be read: that takes too long, or too much memory."
NO_TEXT = "it has no text, only images"

Code = Literal["unsupported_file", "invalid_file", "server_error"]
# Runs slow work elsewhere, for this owner.
RunCheck = Callable[[CheckWork, str], Awaitable[CheckOutcome]]


class UnreadableFile(Exception):
    """The code and the message are for the client: they become the `last_error` of a file in a vector store."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message


class FileTexts:
    def __init__(self, run_check: RunCheck) -> None:
        self._run_check = run_check

    async def text_of(self, path: Path, filename: str, content_type: str | None, owner: str) -> str:
        """Raises UnreadableFile. The file must be at this path for the processes, too."""
        outcome = await self._run_check(FileWork(str(path), filename, content_type), owner)
        if outcome.unfinished:
            raise UnreadableFile("server_error", TOO_SLOW)
        if outcome.complaint is None and outcome.text:
            return outcome.text
        code: Code = "invalid_file" if outcome.code == "invalid_file" else "unsupported_file"
        raise UnreadableFile(code, f"The file cannot be read: {outcome.complaint or NO_TEXT}.")
