"""A downloaded file that is not trusted yet."""

import hashlib
from pathlib import Path

from msgspec import Struct

CHUNK_BYTES = 1024 * 1024


class Candidate(Struct, frozen=True):
    path: Path
    sha256: str


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
