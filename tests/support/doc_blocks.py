"""The blocks of code in the documents, and the commands in them."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted((ROOT / "docs").glob("*.md"))
# Of this text, documents are made that the readers of files are measured with.
CORPUS = "bench/documents.md"
# Every page of the repository, those beside the code as well.
WRITTEN = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    if name != CORPUS
)
# The languages of blocks whose lines are typed into a shell. In "console", those that begin with "$ "; the others are output.
SHELLS = frozenset({"console", "bash", "sh"})
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# At the end of a command, two spaces before it.
COMMENT = re.compile(r"  +# .*$")
# In the text of a page. What is in angle brackets or has an ellipsis is the form of a command.
INLINE = re.compile(r"`((?:make|antiphon|python -m) [^`<…]+)`")


class Block(NamedTuple):
    page: str
    line: int
    # The first word after the fence, and what follows it.
    language: str
    label: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


class Command(NamedTuple):
    block: Block
    text: str


def blocks() -> Iterator[Block]:
    for page in WRITTEN:
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            language, _, label = found[1].partition(" ")
            line = text.count("\n", 0, found.start()) + 1
            yield Block(str(page.relative_to(ROOT)), line, language, label, found[2])


def commands() -> Iterator[Command]:
    """Of all shell blocks, in order. A line that ends with a backslash goes on in the next one."""
    for block in blocks():
        if block.language in SHELLS:
            for text in _lines(block):
                yield Command(block, COMMENT.sub("", text))


def inline_commands() -> Iterator[tuple[str, str]]:
    """Those in the text of the pages, each with its page. A line may end inside of one."""
    for page in WRITTEN:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for found in INLINE.finditer(text):
            yield str(page.relative_to(ROOT)), " ".join(found[1].split())


def _lines(block: Block) -> Iterator[str]:
    whole = block.text.replace("\\\n", " ")
    for line in whole.splitlines():
        if block.language != "console":
            if line.strip() and not line.startswith("#"):
                yield line
        elif line.startswith("$ "):
            yield line.removeprefix("$ ")
