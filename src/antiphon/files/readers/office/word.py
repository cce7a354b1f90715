"""The text of a Word document: headings, lists and tables in their order, with what is above, below and beside the pages."""

import re

from antiphon.files.readers.flow import MOST_LEVELS, Flow, Markup, described
from antiphon.files.readers.office.charts import write_drawn
from antiphon.files.readers.office.zip_parts import ZipParts
from antiphon.files.readers.source import Source, TextParts
from antiphon.files.readers.xml_events import Attributes, attribute
from antiphon.patterns import late_pattern

MARKUP = Markup(
    paragraphs=frozenset({"p"}),
    rows=frozenset({"tr"}),
    cells=frozenset({"tc"}),
    texts=frozenset({"t"}),
    characters={"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"},
    # A drawing comes once for new programs, and again for old ones. Text that was moved is where it was moved to.
    skipped=frozenset({"Fallback", "moveFrom", "del"}),
)
# The kinds of parts that are read before the body and after it, with what is written above them.
BEFORE = {"header": "[header]"}
AFTER = {"footer": "[footer]", "footnotes": "[footnotes]", "endnotes": "[endnotes]", "comments": "[comments]"}
_HEADING = late_pattern(r"heading ?(\d)|(title)$", re.IGNORECASE)


class WordFlow(Flow):
    def element(self, name: str, attributes: Attributes) -> None:
        if name == "pStyle":
            self._style(attribute(attributes, "val") or "")
        elif name == "ilvl" and (level := attribute(attributes, "val") or "").isdecimal():
            self._item(int(level))
        elif name == "numPr" and not self.prefix:
            self._item(0)
        elif name == "docPr" and (description := described(attributes)):
            self.write(description)

    def _style(self, style: str) -> None:
        if heading := _HEADING.match(style):
            self.prefix = "#" * min(int(heading[1] or 1) or 1, MOST_LEVELS) + " "
        elif style.startswith("List"):
            self._item(0)

    def _item(self, level: int) -> None:
        if not self.prefix.startswith("#"):
            # Headings may be numbered, too.
            self.prefix, self.is_line = "  " * min(level, MOST_LEVELS) + "- ", True


def read(source: Source, main: str, parts: ZipParts) -> str:
    text = TextParts(source)
    others = dict.fromkeys(parts.relations(main).values())
    for title, name in _titled(others, BEFORE):
        _write(parts, name, text, title)
    _write(parts, main, text)
    write_drawn(parts, main, text)
    for title, name in _titled(others, AFTER):
        _write(parts, name, text, title)
    return text.text()


def _titled(others: dict[tuple[str, str], None], titles: dict[str, str]) -> list[tuple[str, str]]:
    return [(titles[kind], name) for wanted in titles for kind, name in others if kind == wanted]


def _write(parts: ZipParts, name: str, text: TextParts, title: str | None = None) -> None:
    if title is None:
        WordFlow(MARKUP, text).read(parts.open(name))
        return
    beside = text.part()
    WordFlow(MARKUP, beside).read(parts.open_or_empty(name))
    if written := beside.text():
        text.add(f"{title}\n{written}\n")
