"""The texts of stored files, read in processes that can be killed."""

from pathlib import Path
from typing import Literal, Protocol

from antiphon.core.checks.work import CheckOutcome, CheckWork, FileWork
from antiphon.store.files.records import FileRecord

# How many files are read at once, and how many of them may be of one owner: more than are indexed, so that a request does not
# wait until all files of its owner are.
MOST_PROCESSES = 4
OWN_PROCESSES = 3

TOO_SLOW = "The file cannot be read: that takes too long, or too much memory."
NO_TEXT = "it has no text, only images"

Code = Literal["unsupported_file", "invalid_file", "server_error"]


class RunCheck(Protocol):
    """Runs slow work elsewhere, for this owner. What is patient waits for its turn, however many others wait."""

    async def __call__(self, work: CheckWork, owner: str, *, patient: bool) -> CheckOutcome: ...


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
        outcome = await self._run_check(FileWork(str(path), filename, content_type), owner, patient=True)
        if outcome.unfinished:
            raise UnreadableFile("server_error", TOO_SLOW)
        if outcome.complaint is None and outcome.text:
            return outcome.text
        code: Code = "invalid_file" if outcome.code == "invalid_file" else "unsupported_file"
        raise UnreadableFile(code, f"The file cannot be read: {outcome.complaint or NO_TEXT}.")

    async def read_for_model(self, path: Path, record: FileRecord, *, patient: bool) -> CheckOutcome:
        """What a request gets of the file that it names: its text, or the images on the pages of a scanned PDF."""
        work = FileWork(str(path), record.filename, record.content_type, is_for_model=True)
        return await self._run_check(work, record.owner, patient=patient)
