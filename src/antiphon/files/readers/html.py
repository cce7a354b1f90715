"""The text of an HTML file: all of it, not only what looks like an article.

It has a tokenizer of its own: that of Python takes the square of the time on tags that do not end.
"""

import re
from html import unescape

from antiphon.files.readers import encodings
from antiphon.files.readers.source import Source, TextParts, Unreadable
from antiphon.patterns import late_pattern, possessive

# A comment, a declaration, an end tag, a start tag with its attributes, text, or a sign that begins nothing. What has no end
# goes on to the end of the file, so that no character is looked at more than a few times.
_TOKEN = possessive(
    r"""<!--.*?(?:-->|\Z)
    | <[!?][^>]*(?:>|\Z)
    | </(?P<end>[a-zA-Z][^\s/>]*)[^>]*(?:>|\Z)
    | <(?P<start>[a-zA-Z][^\s/>]*)(?P<attributes>(?:[^'">]|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*+)(?:>|\Z)
    | (?P<text>[^<]+|<)""",
    re.DOTALL | re.VERBOSE,
)
_ALT = late_pattern(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s'">]+))""", re.IGNORECASE)

# Elements whose content is no markup, and is not shown.
RAW = frozenset(("script", "style", "iframe", "noembed", "noframes", "xmp"))
_RAW_ENDS = {name: late_pattern(f"</{name}", re.IGNORECASE) for name in RAW}
HIDDEN = frozenset("template noscript svg math object select datalist".split())
# Elements that begin and end a line.
BLOCKS = frozenset(
    """
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure footer
    form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol option p pre section summary table tbody tfoot thead
    title tr ul
    """.split()
)
# Those that have space around them.
SPACED = frozenset("article blockquote dl figure form h1 h2 h3 h4 h5 h6 hr ol p pre section table title ul".split())
CELLS = frozenset(("td", "th"))
# What a line begins with.
PREFIXES = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}
# How the page names its encoding itself.
_CHARSET = late_pattern(rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
CHARSET_HEAD = 4096
# How much longer a page may be than its text.
MARKUP = 5
_SPACES = late_pattern(r"\s+")


def read(source: Source) -> str:
    named = _CHARSET.search(source.head(CHARSET_HEAD))
    charset = source.charset or (named[1].decode("ascii") if named else None)
    markup = encodings.read(Source(source.file, charset=charset, longest=source.longest * MARKUP))
    if markup is None:
        raise Unreadable("unsupported_file", "it is not text")
    return html_to_text(markup, source)


def html_to_text(markup: str, source: Source) -> str:
    page = PageText(TextParts(source))
    at = 0
    while token := _TOKEN.match(markup, at):
        at = token.end()
        if (text := token["text"]) is not None:
            page.write(unescape(text) if "&" in text else text)
        elif (name := token["end"]) is not None:
            page.end(name.lower())
        elif (name := token["start"]) is not None:
            page.start(name := name.lower(), token["attributes"])
            if name in RAW:
                found = _RAW_ENDS[name].search(markup, at)
                at = found.start() if found else len(markup)
    return page.parts.text()


class PageText:
    def __init__(self, parts: TextParts) -> None:
        self.parts = parts
        # The open elements that hide what is in them.
        self._hiding: set[str] = set()
        self._preformatted = 0
        # How many line ends the text has now at its end: two are a line of space. At its beginning none is needed.
        self._line_ends = 2
        self._prefix = ""

    def start(self, tag: str, attributes: str) -> None:
        if tag in BLOCKS:
            if tag == "body":
                # Some pages do not close what is in their head.
                self._hiding.clear()
            self._break(2 if tag in SPACED else 1)
            self._prefix = PREFIXES.get(tag, self._prefix)
            self._preformatted += tag == "pre"
        elif tag in HIDDEN and not attributes.endswith("/"):
            self._hiding.add(tag)
        elif tag in CELLS and not self._line_ends:
            self.write(" | ")
        elif tag == "img" and (alt := _ALT.search(attributes)):
            self.write(unescape(next(filter(None, alt.groups()), "")))

    def end(self, tag: str) -> None:
        if tag in BLOCKS:
            self._preformatted -= tag == "pre" and self._preformatted > 0
            self._break(2 if tag in SPACED else 1)
            self._prefix = ""
        else:
            self._hiding.discard(tag)

    def write(self, text: str) -> None:
        if self._hiding:
            return
        if not self._preformatted:
            text = _SPACES.sub(" ", text)
        if self._line_ends:
            text = text if self._preformatted else text.lstrip()
            if not text.strip():
                return
            text, self._prefix = self._prefix + text, ""
        self.parts.add(text)
        self._line_ends = 1 if text.endswith("\n") else 0

    def _break(self, line_ends: int) -> None:
        if self._line_ends < line_ends and not self._hiding:
            self.parts.add("\n" * (line_ends - self._line_ends))
            self._line_ends = line_ends
