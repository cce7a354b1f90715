"""A downloaded file that is not trusted yet."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    path: Path
    sha256: str


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
