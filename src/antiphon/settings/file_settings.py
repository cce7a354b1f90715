"""The settings of uploaded files: the table `files` of antiphon.toml."""

from typing import Annotated

from msgspec import Meta, Struct

Bytes = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]


class FileSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[files]`."""

    # The largest file that can be uploaded, in bytes. A larger one gets a 413. `max_body_bytes` does not count for uploads.
    max_file_bytes: Bytes = 512 * 1024 * 1024
    # How much the files of one key may have together, in bytes. One more gets a 413. None: no limit but `max_bytes`.
    key_bytes: Bytes | None = None
    # How much all files may have together, in bytes. One more gets a 413: nobody's files are removed to make room.
    max_bytes: Bytes = 10 * 1024 * 1024 * 1024
    # Seconds for reading the text of one file, for a search or for a request that names it. What takes longer is not read.
    text_timeout: Seconds = 60.0
