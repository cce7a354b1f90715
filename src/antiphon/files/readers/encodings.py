"""Bytes → text, in whatever encoding it is. What is not text gives None."""

import codecs
import unicodedata
from collections.abc import Iterator

from antiphon.files.readers.source import Source

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before those of UTF-16, which begin like them.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# How much is looked at, in bytes. It is even, and a multiple of four.
SAMPLE = 64 * 1024
# Bytes that no text has, but for a few.
CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\f\r\v\b\x1b\x1a"))
MOST_CONTROLS = 0.002
# Encodings that texts are found in. A guess among all that exist is wrong more often.
GUESSED = (
    *("cp1252", "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp1251", "koi8_r", "cp866", "cp1250", "iso8859_2"),
    *("cp1253", "cp1254", "cp1255", "cp1256", "cp874"),
)
WESTERN = "cp1252"
# Who names the first means the second, which has all of its characters and more. Web pages are read so everywhere.
MEANT = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"), WESTERN),
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80", "x-gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ksc5601"), "cp949"),
}
# Python can decode these, but they are no encodings of files, and some are slow.
NOT_CHARSETS = frozenset(("idna", "punycode", "utf-7", "utf7", "unicode_escape", "unicode-escape", "raw_unicode_escape"))
# How much better a guess must be than that one.
CLEARLY = 0.02
# The longest character of any encoding, in bytes.
LONGEST_CHARACTER = 4


def read(source: Source) -> str | None:
    raw = source.head(source.longest * LONGEST_CHARACTER + len(codecs.BOM_UTF32_LE))
    text = decoded(raw, source.charset)
    if text is not None and len(text) > source.longest:
        raise source.too_long()
    return text


def decoded(raw: bytes, charset: str | None = None) -> str | None:
    """`charset`: what the file's sender says. It is believed if it can be right."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return raw.decode(encoding, "replace")
    if b"\0" in raw:
        return _decoded_with_zeros(raw)
    for encoding in _named(raw, charset):
        try:
            return raw.decode(encoding)
        except (LookupError, UnicodeError, ValueError):
            pass
    if _controls(raw[:SAMPLE]) > MOST_CONTROLS:
        return None
    return raw.decode(_guessed(raw) or WESTERN, "replace")


def _named(raw: bytes, charset: str | None) -> Iterator[str]:
    if b"\x1b$" in raw:
        yield "iso2022_jp"
    if charset is not None and charset.lower() not in NOT_CHARSETS:
        yield MEANT.get(charset.lower(), charset)
    yield "utf-8"


def is_utf8(head: bytes) -> bool:
    """Whether a file may be in UTF-8 that begins so. It may be cut within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _controls(sample: bytes) -> float:
    return (len(sample) - len(sample.translate(None, CONTROLS))) / max(1, len(sample))


def _decoded_with_zeros(raw: bytes) -> str | None:
    """Only in UTF-16 and UTF-32 does text have zeros: in its spaces and line ends, at least."""
    for encoding, size in (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2)):
        sample = raw[: min(SAMPLE, len(raw) - len(raw) % size)]
        try:
            # It may be cut within a pair of surrogates.
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeError:
            continue
        if text and _looks_like_text(text):
            return raw.decode(encoding, "replace")
    return None


def _looks_like_text(sample: str) -> bool:
    """Nothing unassigned, few controls, and the spaces or line ends that every text has."""
    if not any(space in sample for space in " \n\r\t\u3000"):
        return False
    odd = sum(unicodedata.category(letter) in ("Cn", "Co", "Cc") and letter not in "\t\n\f\r\v" for letter in sample)
    # Read in the wrong order, a space is U+2000, and a line end is U+0A00, which is not assigned.
    return odd <= MOST_CONTROLS * len(sample) and sample.count("\u2000") <= sample.count(" ")


def _guessed(raw: bytes) -> str | None:
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None
    guesses = from_bytes(_sample(raw), cp_isolation=list(GUESSED), enable_fallback=False)
    if (best := guesses.best()) is None:
        return None
    for guess in guesses:
        # By far the most common one: a short text in it could often be in one of its neighbours, too.
        if guess.encoding == WESTERN and guess.chaos - best.chaos < CLEARLY and best.coherence - guess.coherence < CLEARLY:
            return WESTERN
    return best.encoding


def _sample(raw: bytes) -> bytes:
    """Around the first byte that is not ASCII: a long file may begin with pages that could be in any encoding."""
    first = next((at for at in range(0, len(raw), SAMPLE) if not raw[at : at + SAMPLE].isascii()), 0)
    sample = raw[first : first + SAMPLE]
    # Up to the end of a line: not within a character.
    return sample if len(sample) < SAMPLE else sample[: sample.rfind(b"\n") + 1] or sample
