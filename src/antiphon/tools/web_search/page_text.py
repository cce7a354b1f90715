"""The text of a web page, without what surrounds it. Slow, and pages come from anybody: `run_check()` runs it."""

import contextlib
from typing import Any

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.hosted.search_results import clean, clean_page
from antiphon.installation import missing_extra

# More of a page is not kept.
LONGEST_TEXT = 512 * 1024
LONGEST_TITLE = 300

NOT_HTML = "it is not a web page"
NO_TEXT = "the page has no text. It may be made by a script"


def not_installed() -> str:
    return f"web pages are not read here: {missing_extra('that', 'web')}"


def read(page: bytes, charset: str | None = None) -> CheckOutcome:
    try:
        import trafilatura
    except ImportError:
        return CheckOutcome(complaint=not_installed())
    tree = trafilatura.load_html(_decoded(page, charset))
    if tree is None:
        return CheckOutcome(complaint=NOT_HTML)
    text = trafilatura.extract(tree, output_format="markdown", include_comments=False, favor_recall=True)
    # Of a page with nothing that looks like an article, such as a list, all of its text.
    text = clean_page(text or trafilatura.html2txt(tree) or "")
    if not text:
        return CheckOutcome(complaint=NO_TEXT)
    return CheckOutcome(_encodable(text[:LONGEST_TEXT]), title=_encodable(_title(tree)))


def read_plain(page: bytes, charset: str | None = None) -> CheckOutcome:
    """A page that is text as it is. Some of the codecs that a server can name are slow."""
    try:
        text = page.decode(charset or "utf-8", "replace")
    except (LookupError, UnicodeError, ValueError):
        text = page.decode("utf-8", "replace")
    return CheckOutcome(_encodable(clean_page(text[:LONGEST_TEXT])), complaint=None if text.strip() else NO_TEXT)


def _decoded(page: bytes, charset: str | None) -> str | bytes:
    """As the server says, if that can be right. Otherwise the page is asked, and guessed about."""
    with contextlib.suppress(LookupError, UnicodeError, ValueError):
        return page.decode(charset) if charset else page
    return page


def _title(tree: Any) -> str:
    return clean(tree.findtext(".//title"))[:LONGEST_TITLE]


def _encodable(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()
