"""The text of a mail: who wrote to whom about what, and its words. Files that are attached are named."""

import contextlib
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import default

from antiphon.files.readers import encodings
from antiphon.files.readers.html import html_to_text
from antiphon.files.readers.source import Source, TextParts, damaged

HEADERS = ("From", "To", "Cc", "Date", "Subject")
ATTACHED = "[attached: {name}]\n"
FORWARDED = "[attached mail]\n"
PLAIN, HTML, MAIL = "text/plain", "text/html", "message/rfc822"
# How much of a mail is read: what is attached may be large.
MOST_BYTES = 64 * 1024 * 1024
# How many mails inside each other are read.
MOST_FORWARDED = 5


def read(source: Source) -> str:
    mail = message_from_bytes(source.head(MOST_BYTES), policy=default)
    if not isinstance(mail, EmailMessage) or not mail.keys():
        raise damaged("mail", "it has no headers")
    text = TextParts(source)
    _write(mail, source, text, MOST_FORWARDED)
    return text.text()


def _write(mail: EmailMessage, source: Source, text: TextParts, depth: int) -> None:
    for name in HEADERS:
        if value := _header(mail, name):
            text.add(f"{name}: {value}\n")
    attached: list[EmailMessage] = []
    for part in _shown(mail):
        if part.get_content_type() in (PLAIN, HTML) and not part.is_attachment():
            if words := _words(part, source):
                text.add(f"\n{words}\n")
        else:
            attached.append(part)
    for at, part in enumerate(attached):
        text.add("" if at else "\n")
        _write_attached(part, source, text, depth)


def _write_attached(part: EmailMessage, source: Source, text: TextParts, depth: int) -> None:
    inner = part.get_payload()
    if part.get_content_type() == MAIL and depth and isinstance(inner, list) and inner and isinstance(inner[0], EmailMessage):
        text.add(FORWARDED)
        _write(inner[0], source, text, depth - 1)
    else:
        text.add(ATTACHED.format(name=part.get_filename() or part.get_content_type()))


def _shown(part: EmailMessage) -> Iterator[EmailMessage]:
    """The parts without parts of their own. Of alternatives, only the one that is read."""
    if part.get_content_maintype() != "multipart" or not part.is_multipart():
        yield part
        return
    parts = [each for each in part.iter_parts() if isinstance(each, EmailMessage)]
    if part.get_content_subtype() == "alternative":
        parts = _preferred(parts)
    for each in parts:
        yield from _shown(each)


def _preferred(alternatives: list[EmailMessage]) -> list[EmailMessage]:
    """Plain text, if there is some: then HTML, then what the sender likes best, which is the last one."""
    for wanted in (PLAIN, HTML):
        for each in alternatives:
            if each.get_content_type() == wanted and _raw(each).strip():
                return [each]
    return alternatives[-1:]


def _words(part: EmailMessage, source: Source) -> str:
    raw = _raw(part)
    content = encodings.decoded(raw, part.get_content_charset())
    if content is None:
        return ""
    return (html_to_text(content, source) if part.get_content_type() == HTML else content).strip()


def _raw(part: EmailMessage) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _header(mail: EmailMessage, name: str) -> str:
    """Addresses that break the rules are shown as they were written: the parser would drop what it does not understand."""
    raw = next((str(raw) for key, raw in mail.raw_items() if key.lower() == name.lower()), "")
    try:
        value = mail[name]
        if value is None or not getattr(value, "defects", ()):
            return str(value or "")
    except Exception:
        # Python's parser of headers may raise anything.
        pass
    return _as_written(raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _as_written(header: str) -> str:
    with contextlib.suppress(HeaderParseError, LookupError, UnicodeError, ValueError):
        header = str(make_header(decode_header(header)))
    return " ".join(header.split())
