"""The texts of stored files, read in processes that can be killed; and what an engine gets of the files that a request
names."""

import base64
from pathlib import Path
from typing import Literal, Protocol

from msgspec import structs

from antiphon.core.checks.work import NO_SUCH_FILE, CheckOutcome, CheckWork, FileWork, StoredFileWork
from antiphon.core.prompt.documents import KnownDocuments, plain_text, work_digest
from antiphon.errors import counted
from antiphon.files.contents import in_thread
from antiphon.files.library import FileLibrary
from antiphon.store.files.records import FileRecord

# In the words that follow "cannot be read: ".
NOT_THERE = "there is no such file"
NO_IMAGE = "the file is no image: it must be a PNG, JPEG, GIF or WebP file"
TOO_LARGE = "the image has {size}, and at most {most} are allowed (`max_image_bytes`)"
TOO_LONG = "it has more than {most} characters, the most that a request may have of one file"
LONGEST_TEXT = 8 * 1024 * 1024
# In bytes: a character has four at most.
LONGEST_PLAIN = 4 * LONGEST_TEXT

# How each kind of image begins, and the bytes after its first eight that it must have.
IMAGES: tuple[tuple[bytes, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"GIF8", b"", "image/gif"),
    (b"RIFF", b"WEBP", "image/webp"),
)


class ReadText(Protocol):
    """The text of a file, or the images on its pages; or a complaint."""

    async def __call__(self, path: Path, record: FileRecord, *, patient: bool) -> CheckOutcome: ...


class FileInputs:
    def __init__(self, library: FileLibrary, read_text: ReadText) -> None:
        self._library = library
        self._read_text = read_text
        # By its id, which no other file ever has. Whose it is, and whether it is still there, is looked up each time.
        self._known = KnownDocuments()

    async def outcome_of(self, work: StoredFileWork, owner: str, *, patient: bool = False) -> CheckOutcome:
        """A file that is not there, or cannot be read, has a complaint. Raises if that cannot be said now."""
        record = await self._library.get(owner, work.id)
        if record is None:
            return CheckOutcome(complaint=NOT_THERE, code=NO_SUCH_FILE)
        if work.is_image:
            return await self._image(record, work.most_bytes)
        digest = work_digest(work)
        if (outcome := self._known.get(digest)) is None:
            outcome = bounded(await self._read(record, patient=patient))
            if not outcome.unfinished:
                self._known.add(digest, outcome)
        return structs.replace(outcome, title=record.filename)

    async def _read(self, record: FileRecord, *, patient: bool) -> CheckOutcome:
        """As a file in a request is read: plain text is sent as it is."""
        async with self._library.local_copy(record) as path:
            if record.size <= LONGEST_PLAIN:
                text = await in_thread(lambda: plain_text(path.read_bytes()))
                if text is not None:
                    return CheckOutcome(text)
            return await self._read_text(path, record, patient=patient)

    async def _image(self, record: FileRecord, most: int) -> CheckOutcome:
        if record.size > most:
            words = TOO_LARGE.format(size=counted(record.size, "byte"), most=counted(most, "byte"))
            return CheckOutcome(complaint=words, title=record.filename)
        image = b"".join([piece async for piece in self._library.read(record)])
        outcome = await in_thread(lambda: image_to_outcome(image))
        return structs.replace(outcome, title=record.filename)


def image_to_outcome(image: bytes) -> CheckOutcome:
    kind = next((kind for start, form, kind in IMAGES if image.startswith(start) and image[8:].startswith(form)), None)
    if kind is None:
        return CheckOutcome(complaint=NO_IMAGE, code="unsupported_file")
    return CheckOutcome(images=(f"data:{kind};base64,{base64.b64encode(image).decode()}",))


def bounded(outcome: CheckOutcome) -> CheckOutcome:
    if len(outcome.text) <= LONGEST_TEXT:
        return outcome
    return CheckOutcome(complaint=TOO_LONG.format(most=LONGEST_TEXT))


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
