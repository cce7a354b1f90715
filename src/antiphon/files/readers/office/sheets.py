"""The text of a workbook: sheet by sheet, a line for each row, with the values that formulas had when it was saved. And numbers
as office programs store and show them."""

import math
import re

from antiphon.files.readers.office.zip_parts import ZipParts
from antiphon.files.readers.source import Source, TextParts
from antiphon.files.readers.xml_events import Attributes, read_xml
from antiphon.patterns import late_pattern

DAYS_TO_1970 = 25_569
# Workbooks of old Macintosh computers begin four years later.
DAYS_TO_1904 = 1_462
# These programs believe that 1900 had a 29 February.
LEAP_DAY = 60
# 31 December 9999: they know no later day.
LAST_DAY = 2_958_465
SECONDS_A_DAY = 86_400
# What says nothing in a format: quoted texts, colours and conditions, characters as they are.
_PLAIN = late_pattern(r'"[^"]*"|\[[^\]]*\]|\\.|_.|\*.')
_DATE = late_pattern(r"[dmyhs]", re.IGNORECASE)
_GENERAL = "general"


def is_date_format(code: str) -> bool:
    """Whether numbers in this format are dates or times."""
    return code.lower() != _GENERAL and _DATE.search(_PLAIN.sub("", code).partition(";")[0]) is not None


def is_percent_format(code: str) -> bool:
    return "%" in _PLAIN.sub("", code)


def percent_to_text(number: float) -> str:
    return f"{number * 100:.15g}%"


def number_to_text(value: str) -> str:
    """With as many digits as such programs show. What is no number stays as it is."""
    try:
        return format(float(value), ".15g")
    except ValueError:
        return value


def serial_to_text(serial: float, *, is_1904: bool = False) -> str | None:
    """None: it is no date. Less than a day is a time."""
    if not 0 <= serial <= LAST_DAY:
        return None
    days, seconds = divmod(math.floor(serial * SECONDS_A_DAY + 0.5), SECONDS_A_DAY)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if is_1904:
        days += DAYS_TO_1904
    elif days == 0:
        return time
    elif days < LEAP_DAY:
        days += 1
    year, month, day = _civil(days - DAYS_TO_1970)
    date = f"{year:04}-{month:02}-{day:02}"
    return f"{date} {time}" if seconds else date


def _civil(days: int) -> tuple[int, int, int]:
    """The date, so many days after 1 January 1970. Years are counted from March, so that the leap day is their last."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + 400 * era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


SHEET = "[sheet: {name}]\n"
# How many empty cells between two others are shown: a row may have a cell in its 16384th column, and no other.
MOST_EMPTY = 50
# The built-in formats of numbers that are dates or times, and those that are percentages.
DATE, PERCENT = "date", "percent"
BUILT_IN = {
    **dict.fromkeys((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)), DATE),
    **dict.fromkeys((9, 10), PERCENT),
}
_COLUMN = late_pattern(r"[A-Z]{1,3}")
BOOLEANS = {"0": "FALSE", "1": "TRUE"}


def read(source: Source, main: str, parts: ZipParts) -> str:
    text = TextParts(source)
    relations = parts.relations(main)
    by_kind = dict(reversed([*relations.values()]))
    strings = _shared_strings(parts, by_kind.get("sharedStrings", ""), text)
    styles = _styles(parts, by_kind.get("styles", ""))
    sheets, is_1904 = _sheets(parts, main)
    for name, id in sheets:
        if relations.get(id, ("", ""))[0] == "worksheet":
            rows = text.part()
            Rows(rows, strings, styles, is_1904=is_1904).read(parts, relations[id][1])
            if written := rows.text():
                text.add(f"{SHEET.format(name=name)}{written}\n")
    return text.text()


def _sheets(parts: ZipParts, main: str) -> tuple[list[tuple[str, str]], bool]:
    """The names and relations of the sheets, and whether days are counted from 1904."""
    sheets: list[tuple[str, str]] = []
    is_1904 = False

    def start(element: str, attributes: Attributes) -> None:
        nonlocal is_1904
        if element == "sheet":
            sheets.extend((attributes.get("name", ""), value) for key, value in attributes.items() if key.endswith(":id"))
        elif element == "workbookPr":
            is_1904 = attributes.get("date1904") in ("1", "true")

    read_xml(parts.open(main), start)
    return sheets, is_1904


def _shared_strings(parts: ZipParts, name: str, text: TextParts) -> list[str]:
    """Texts of cells, which are written once and named by their number."""
    strings: list[str] = []
    # Only to bound them: they may be longer than the text is allowed to be.
    bound = text.part()
    open_texts: list[str] = []
    depth = skipping = 0

    def start(element: str, attributes: Attributes) -> None:
        nonlocal depth, skipping
        if element == "si":
            open_texts.clear()
        elif element == "rPh":
            # How to say it, in Japanese.
            skipping += 1
        elif element == "t":
            depth += 1

    def end(element: str) -> None:
        nonlocal depth, skipping
        if element == "si":
            strings.append("".join(open_texts))
            bound.add(strings[-1])
        elif element == "rPh":
            skipping -= 1
        elif element == "t":
            depth -= 1

    def data(piece: str) -> None:
        if depth and not skipping:
            open_texts.append(piece)

    read_xml(parts.open_or_empty(name), start, end, data)
    return strings


def _styles(parts: ZipParts, name: str) -> dict[int, str]:
    """The numbers of the styles in which a number is shown as a date, a time or a percentage."""
    formats: dict[int, str | None] = {**BUILT_IN}
    styles: list[int] = []
    inside = False

    def start(element: str, attributes: Attributes) -> None:
        nonlocal inside
        if element == "numFmt" and (id := attributes.get("numFmtId", "")).isdecimal():
            formats[int(id)] = _format_kind(attributes.get("formatCode", ""))
        elif element == "cellXfs":
            inside = True
        elif element == "xf" and inside:
            id = attributes.get("numFmtId", "")
            styles.append(int(id) if id.isdecimal() else 0)

    def end(element: str) -> None:
        nonlocal inside
        inside = inside and element != "cellXfs"

    read_xml(parts.open_or_empty(name), start, end)
    return {at: kind for at, id in enumerate(styles) if (kind := formats.get(id)) is not None}


def _format_kind(code: str) -> str | None:
    if is_percent_format(code):
        return PERCENT
    return DATE if is_date_format(code) else None


class Rows:
    """Writes the rows of one sheet."""

    def __init__(self, text: TextParts, strings: list[str], styles: dict[int, str], *, is_1904: bool) -> None:
        self._text = text
        self._strings = strings
        self._styles = styles
        self._is_1904 = is_1904
        self._cells: list[str] = []
        # Of the last cell, and of the last one that is not empty. The first column is 1.
        self._column = self._shown_column = 0
        self._cell: Attributes = {}
        # Of the cell that is open: its value, and its formula.
        self._value: list[str] = []
        self._formula: list[str] = []
        self._into: list[str] | None = None

    def read(self, parts: ZipParts, name: str) -> None:
        read_xml(parts.open_or_empty(name), self._start, self._end, self._data)

    def _start(self, element: str, attributes: Attributes) -> None:
        if element == "row":
            self._cells, self._column, self._shown_column = [], 0, 0
        elif element == "c":
            self._cell, self._value, self._formula = attributes, [], []
        elif element in ("v", "t"):
            self._into = self._value
        elif element == "f":
            self._into = self._formula

    def _end(self, element: str) -> None:
        if element in ("v", "t", "f"):
            self._into = None
        elif element == "c":
            self._end_cell()
        elif element == "row" and self._cells:
            self._text.add("\t".join(self._cells) + "\n")

    def _data(self, text: str) -> None:
        if self._into is not None:
            self._into.append(text)

    def _end_cell(self) -> None:
        self._column = _column(self._cell.get("r", "")) or self._column + 1
        if shown := self._shown():
            self._cells += [""] * min(MOST_EMPTY, max(0, self._column - self._shown_column - 1))
            self._cells.append(shown)
            self._shown_column = self._column

    def _shown(self) -> str:
        value, kind = "".join(self._value), self._cell.get("t", "n")
        if not value and self._formula:
            # Saved by a program that does not calculate.
            return f"={''.join(self._formula)}"
        if kind == "s":
            at = int(value) if value.isdecimal() and len(value) < 10 else -1
            return _line(self._strings[at]) if 0 <= at < len(self._strings) else ""
        if kind == "b":
            return BOOLEANS.get(value, value)
        return self._number(value) if kind == "n" else _line(value)

    def _number(self, value: str) -> str:
        try:
            number = float(value)
        except ValueError:
            return _line(value)
        style = self._cell.get("s", "0")
        kind = self._styles.get(int(style)) if style.isdecimal() and len(style) < 10 else None
        if kind == DATE:
            return serial_to_text(number, is_1904=self._is_1904) or value
        return percent_to_text(number) if kind == PERCENT else number_to_text(value)


def _column(reference: str) -> int:
    """Of "B7", 2. 0: it does not say."""
    found = _COLUMN.match(reference)
    number = 0
    for letter in found[0] if found else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _line(value: str) -> str:
    return " ".join(value.split())
