"""Makes `jargon.txt` from the Jargon File 4.4.7, which is in the public domain, as Debian packages it.

apt-get download dict-jargon && dpkg-deb -x dict-jargon_*.deb jargon
python tests/retrieval/make.py jargon/usr/share/dictd/jargon.dict.dz
"""

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CORPUS = Path(__file__).parent / "jargon.txt"
FEWEST_WORDS = 110
MOST_WORDS = 400
# Entries that nobody wants to find in the output of a test.
UNSUITABLE = re.compile(
    r"fuck|\bsex|condom|wank|\bgang bang|choad|\bass\b|shit|nigger|whore|penis|vagina|bitch|rape", re.IGNORECASE
)


def entries(dictionary: str) -> Iterator[tuple[str, str]]:
    """An entry begins at the left margin. The line below may be its pronunciation, with one space; its text has four."""
    for entry in re.split(r"\n(?=\S)", dictionary):
        word, *lines = entry.split("\n")
        text = "\n".join(line.strip() for line in lines if not re.match(r" \S", line))
        yield word.strip(), "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def chosen(dictionary: str) -> dict[str, str]:
    documents: dict[str, str] = {}
    for word, text in entries(dictionary):
        name = re.sub(r"[^a-z0-9+]+", "-", word.lower()).strip("-")
        if name and FEWEST_WORDS <= len(text.split()) <= MOST_WORDS and not UNSUITABLE.search(word + text):
            documents.setdefault(name, f"{word}\n\n{text}")
    return documents


def main(path: str) -> None:
    documents = chosen(gzip.decompress(Path(path).read_bytes()).decode())
    CORPUS.write_text("".join(f"=== {name}\n{text}\n" for name, text in documents.items()))


if __name__ == "__main__":
    main(sys.argv[1])
