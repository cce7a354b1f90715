"""`make sentences`: the longest sentences of the documents, the longest first. Read them aloud, and cut them."""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Not written for a reader who begins: what happened, and what a test writes.
LEFT_OUT = frozenset({"CHANGELOG.md", "conformance.md", "conformance_chat.md", "conformance_messages.md", "faults.md"})
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# A paragraph, an item of a list, a heading or a row of a table begins.
BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-|#]|\d+\.) ?)")
# A colon ends no sentence: what follows it is as hard to read.
END = re.compile(r"(?<=[.!?])\)?\s+(?=[^\w\s]*[A-Z0-9`])")


class Sentence(NamedTuple):
    words: int
    page: str
    line: int
    text: str


def sentences(page: str, text: str) -> Iterator[Sentence]:
    # As many lines as before, so that the line of a sentence is right.
    text = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    begin = 0
    for end in (*(found.start() for found in BLOCK.finditer(text)), len(text)):
        block = text[begin:end]
        line = text.count("\n", 0, end - len(block.lstrip())) + 1
        begin = end
        # A row of a table has a text in each cell.
        for part in block.split(" | ") if block.lstrip().startswith("|") else [block]:
            for sentence in END.split(" ".join(LINK.sub(r"\1", part).split())):
                if words := len(re.findall(r"\w[^\s]*", sentence)):
                    yield Sentence(words, page, line, sentence.strip(" |"))


def pages() -> Sequence[Path]:
    return [page for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))) if page.name not in LEFT_OUT]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--most", type=int, default=40, metavar="N", help="how many (40)")
    most = arguments.parse_args().most
    found = [
        each for page in pages() for each in sentences(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))
    ]
    for each in sorted(found, key=lambda each: (-each.words, each.page, each.line))[:most]:
        print(f"{each.words:4}  {each.page}:{each.line}  {each.text}")


if __name__ == "__main__":
    main()
