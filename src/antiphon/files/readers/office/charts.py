"""The numbers behind a chart, as a table: a document has a copy of them. And the texts of a diagram (SmartArt)."""

from collections.abc import Iterator

from antiphon.files.readers.flow import CELL_BORDER, Flow, Markup, one_line
from antiphon.files.readers.office.sheets import is_date_format, number_to_text, serial_to_text
from antiphon.files.readers.office.zip_parts import ZipParts
from antiphon.files.readers.source import TextParts, Unreadable
from antiphon.files.readers.xml_events import Attributes, read_xml

# Where the values of a series are → what they are.
NAME, CATEGORIES, VALUES = "name", "categories", "values"
ROLES = {"tx": NAME, "cat": CATEGORIES, "xVal": CATEGORIES, "val": VALUES, "yVal": VALUES}
# No program draws more.
MOST_SERIES = 1_000
TOO_MANY = f"a chart has more than {MOST_SERIES} series"
DIAGRAM = Markup(
    paragraphs=frozenset({"p"}),
    rows=frozenset(),
    cells=frozenset(),
    texts=frozenset({"t"}),
    characters={"br": "\n"},
    spaced=False,
)


class Series:
    def __init__(self) -> None:
        # By what they are, the values by their number.
        self.points: dict[str, dict[int, str]] = {NAME: {}, CATEGORIES: {}, VALUES: {}}


class Chart:
    def __init__(self, text: TextParts) -> None:
        # Only to bound what is read.
        self._bound = text.part()
        self.title: list[str] = []
        self.series: list[Series] = []
        self._in_title = 0
        self._role: str | None = None
        self._format = ""
        self._point = 0
        self._data: list[str] | None = None

    def read(self, parts: ZipParts, name: str) -> None:
        read_xml(parts.open_or_empty(name), self._start, self._end, self._text)

    def _start(self, name: str, attributes: Attributes) -> None:
        if name == "ser":
            if len(self.series) == MOST_SERIES:
                raise Unreadable("invalid_file", TOO_MANY)
            self.series.append(Series())
        elif name == "title":
            self._in_title += 1
        elif self.series and name in ROLES:
            self._role, self._format = ROLES[name], ""
        elif name == "pt":
            number = attributes.get("idx", "")
            self._point = int(number) if number.isdecimal() and len(number) < 10 else 0
        elif name in ("v", "formatCode", "t"):
            self._data = []

    def _end(self, name: str) -> None:
        if name == "title":
            self._in_title -= 1
        elif self._role is not None and ROLES.get(name) == self._role:
            self._role = None
        elif self._data is not None and name in ("v", "formatCode", "t"):
            self._take(name, one_line("".join(self._data)))
            self._data = None

    def _text(self, data: str) -> None:
        if self._data is not None:
            self._data.append(data)

    def _take(self, name: str, value: str) -> None:
        self._bound.add(value)
        if name == "t" and self._in_title:
            self.title.append(value)
        elif name == "formatCode":
            self._format = value
        elif name == "v" and value and self._role is not None:
            shown = serial_to_text(_number(value)) if is_date_format(self._format) else None
            self.series[-1].points[self._role][self._point] = shown or number_to_text(value)

    def lines(self) -> Iterator[str]:
        """The title, and a table with a column for each series. Its categories are those of the first one that has some."""
        if title := one_line(" ".join(self.title)):
            yield title
        names = [" ".join(each.points[NAME].values()) for each in self.series]
        if any(names):
            yield CELL_BORDER.join(("", *names))
        categories = next((each.points[CATEGORIES] for each in self.series if each.points[CATEGORIES]), {})
        for number in sorted({number for each in self.series for number in each.points[VALUES]} | categories.keys()):
            values = (each.points[VALUES].get(number, "") for each in self.series)
            yield CELL_BORDER.join((categories.get(number, ""), *values))


def write_chart(parts: ZipParts, name: str, text: TextParts) -> None:
    chart = Chart(text)
    chart.read(parts, name)
    # Line by line: few numbers in many series would make a very large table.
    for at, line in enumerate(chart.lines()):
        text.add(f"{line}\n" if at else f"[chart]\n{line}\n")


def write_diagram(parts: ZipParts, name: str, text: TextParts) -> None:
    Flow(DIAGRAM, text).read(parts.open_or_empty(name))


# What a part may refer to, by the kind of the relation.
DRAWN = {"chart": write_chart, "diagramData": write_diagram}


def write_drawn(parts: ZipParts, part: str, text: TextParts) -> None:
    """The charts and diagrams that a part of a document refers to."""
    for kind, name in dict.fromkeys(parts.relations(part).values()):
        if kind in DRAWN:
            DRAWN[kind](parts, name, text)


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return -1.0
