"""The text of a file in Rich Text Format."""

import re

from antiphon.files.readers.source import Source, TextParts
from antiphon.patterns import late_pattern

# A word of control with its number, a byte, another sign, a brace, or text.
_TOKEN = late_pattern(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.DOTALL
)
BREAKS = {"par": "\n", "line": "\n", "sect": "\n\n", "page": "\n\n", "row": "\n", "tab": "\t", "cell": " | ", "nestcell": " | "}
LETTERS = {"emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”"}
CHARACTERS = {**BREAKS, **LETTERS}
SIGNS = {b"~": "\xa0", b"_": "-", b"\n": "\n", b"\r": "\n", b"\\": "\\", b"{": "{", b"}": "}"}
# Groups that are not text.
HIDDEN = frozenset(
    "fonttbl colortbl stylesheet info pict object themedata colorschememapping datastore listtable listoverridetable rsidtbl "
    "generator filetbl revtbl fldinst xmlnstbl latentstyles mmathPr wgrffmtfilter".split()
)
# Notes, which are text, though some programs mark them as groups that only programs which know them should show.
NOTES = frozenset(("footnote", "annotation"))
NOTE_START, NOTE_END = " [note: ", "]"
MOST_BYTES = 128 * 1024 * 1024


class Group:
    """What applies until a brace closes."""

    __slots__ = ("hidden", "is_note", "skip")

    def __init__(self, hidden: bool = False, skip: int = 1) -> None:
        self.hidden = hidden
        self.is_note = False
        # How many characters follow a character by its number, for programs that do not know it.
        self.skip = skip


def read(source: Source) -> str:
    writer = RtfText(TextParts(source))
    for token in _TOKEN.finditer(source.head(MOST_BYTES)):
        writer.take(*token.groups())
    return writer.text()


class RtfText:
    def __init__(self, parts: TextParts) -> None:
        self._parts = parts
        self._groups = [Group()]
        self._encoding = "cp1252"
        # Bytes that wait for those that belong to them: a character may take two.
        self._bytes = bytearray()
        self._skipping = 0

    def take(
        self,
        word: bytes | None,
        number: bytes | None,
        hexadecimal: bytes | None,
        sign: bytes | None,
        brace: bytes | None,
        text: bytes | None,
    ) -> None:
        if hexadecimal is not None:
            self._raw(bytes.fromhex(hexadecimal.decode()))
        elif text is not None:
            self._raw(text)
        elif word is not None:
            self._word(word.decode(), None if number is None else int(number))
        elif brace is not None:
            self._brace(brace)
        elif sign == b"*":
            # A group that only programs which know it should show.
            self._groups[-1].hidden = True
        elif sign is not None:
            self._write(SIGNS.get(sign, ""))

    def text(self) -> str:
        self._flush()
        return self._parts.text()

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self._skipping = 0
        if brace == b"{":
            self._groups.append(Group(self._groups[-1].hidden, self._groups[-1].skip))
        elif len(self._groups) > 1 and self._groups.pop().is_note:
            self._write(NOTE_END)

    def _word(self, word: str, number: int | None) -> None:
        if word in HIDDEN:
            self._groups[-1].hidden = True
        elif word in NOTES:
            self._begin_note()
        elif word == "ansicpg" and number is not None:
            self._flush()
            self._encoding = f"cp{number}"
        elif word == "uc" and number is not None:
            self._groups[-1].skip = max(0, number)
        elif word == "u" and number is not None:
            self._write(chr(number % 0x10000))
            self._skipping = self._groups[-1].skip
        elif word in CHARACTERS:
            self._write(CHARACTERS[word])

    def _begin_note(self) -> None:
        if len(self._groups) > 1 and not self._groups[-2].hidden:
            self._groups[-1].hidden = False
            self._groups[-1].is_note = True
            self._write(NOTE_START)

    def _raw(self, raw: bytes) -> None:
        skipped = min(self._skipping, len(raw))
        self._skipping -= skipped
        if not self._groups[-1].hidden:
            self._bytes += raw[skipped:]

    def _write(self, text: str) -> None:
        self._flush()
        if not self._groups[-1].hidden:
            self._parts.add(text)

    def _flush(self) -> None:
        if self._bytes:
            try:
                text = self._bytes.decode(self._encoding, "replace")
            except LookupError:
                text = self._bytes.decode("cp1252", "replace")
            self._bytes.clear()
            self._parts.add(text)
