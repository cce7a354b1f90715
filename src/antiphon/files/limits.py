"""How much may be stored in files, and what is said about more."""

from msgspec import Struct

from antiphon.errors import BodyTooLarge, counted
from antiphon.store.files.files import BytesUsed

TOO_LARGE = "The file is larger than {most}, the most that one file may have here (`files.max_file_bytes`)."
KEY_IS_FULL = (
    "There is no room for this file: the files of this key may have {most} (`files.key_bytes`), and have {used} without it. "
    "Delete some of them first."
)
ALL_IS_FULL = (
    "There is no room for this file: all files of this gateway may have {most} (`files.max_bytes`). Delete some files, or ask "
    "the operator for more room."
)


class FileLimits(Struct, frozen=True):
    """In bytes: of one file; of the files of one key, None for no limit; of all files."""

    file: int = 512 * 1024**2
    key: int | None = None
    all: int = 10 * 1024**3

    def check_size(self, size: int) -> None:
        if size > self.file:
            raise BodyTooLarge(TOO_LARGE.format(most=counted(self.file, "byte")), param="file", code="file_too_large")

    def check_room(self, used: BytesUsed, more: BytesUsed) -> None:
        """Raises if there is no room for so many more bytes, those of others that arrive now included."""
        if self.key is not None and used.owner + more.owner > self.key:
            words = KEY_IS_FULL.format(most=counted(self.key, "byte"), used=counted(used.owner, "byte"))
            raise BodyTooLarge(words, param="file", code="file_storage_full")
        if used.all + more.all > self.all:
            raise BodyTooLarge(ALL_IS_FULL.format(most=counted(self.all, "byte")), param="file", code="file_storage_full")
