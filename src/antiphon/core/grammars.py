"""A custom tool's grammar: whether a text follows it, what is wrong if not, and the mending of a patch without its envelope."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec
import regex
from lark import Lark
from lark.exceptions import LarkError, UnexpectedInput

from antiphon.core.string_member import whole_input
from antiphon.core.tools import Grammar

# A pattern may take this long on one text; a longer text is not parsed at all, because parsing holds everybody up.
PATTERN_SECONDS = 0.2
LONGEST_TEXT = 64 * 1024
# lark has no terminals that may be empty; the ones that tools use mean "the rest of the line, if any".
_MAYBE_EMPTY = re.compile(r"/\(?\.\*\)?/")
_FENCE = re.compile(r"\s*```[a-z_]*\n(?P<inside>.*?)\n?```\s*", re.DOTALL)

BEGIN, END = "*** Begin Patch", "*** End Patch"

Complaint = Callable[[str], str | None]


def is_readable(grammar: Grammar) -> bool:
    return _checker(grammar) is not None


def complaint(grammar: Grammar, text: str) -> str | None:
    """What is wrong with the text; None if nothing is, or if it cannot be told."""
    check = _checker(grammar)
    return None if check is None or len(text) > LONGEST_TEXT else check(text)


@lru_cache(maxsize=64)
def _checker(grammar: Grammar) -> Complaint | None:
    """None: the grammar itself cannot be read."""
    try:
        return SYNTAXES[grammar.syntax or ""](grammar.definition or "")
    except (KeyError, LarkError, regex.error, RecursionError):
        return None


def _lark(definition: str) -> Complaint:
    source = _MAYBE_EMPTY.sub("(/.+/)?", definition)
    try:
        # Much the faster, where the grammar lets it.
        parser = Lark(source, parser="lalr")
    except LarkError:
        parser = Lark(source, parser="earley")

    def check(text: str) -> str | None:
        try:
            parser.parse(text)
        except UnexpectedInput as wrong:
            line, column = getattr(wrong, "line", -1), getattr(wrong, "column", -1)
            place = f"line {line}, column {column}" if line and line > 0 else "the end"
            found = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
            return f"the text does not follow the grammar at {place}" + (f": {found!r}" if found else "")
        except (LarkError, RecursionError) as wrong:
            return f"the text does not follow the grammar: {type(wrong).__name__}"
        return None

    return check


def _regex(definition: str) -> Complaint:
    pattern = regex.compile(definition)

    def check(text: str) -> str | None:
        try:
            return None if pattern.fullmatch(text, timeout=PATTERN_SECONDS) else "the text does not match the pattern"
        except TimeoutError:
            return None

    return check


SYNTAXES: dict[str, Callable[[str], Complaint]] = {"lark": _lark, "regex": _regex}


class GrammarCheck:
    """A custom call whose text must follow a grammar. One that stays wrong is shown: its tool will say what it thinks."""

    held = True
    binding = False

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar

    def mended(self, arguments: str) -> str:
        text = whole_input(arguments)
        better = mended(self._grammar, text)
        return arguments if better == text else msgspec.json.encode({"input": better}).decode()

    def complaint(self, arguments: str) -> str | None:
        return complaint(self._grammar, whole_input(arguments))


def mended(grammar: Grammar, text: str) -> str:
    """The text, or one that follows the grammar and differs only in its wrapping."""
    if complaint(grammar, text) is None:
        return text
    return next((other for other in _wrapped_otherwise(grammar, text) if complaint(grammar, other) is None), text)


def _wrapped_otherwise(grammar: Grammar, text: str) -> Iterator[str]:
    fence = _FENCE.fullmatch(text)
    for inside in (text, fence["inside"]) if fence else (text,):
        yield inside
        yield inside.strip() + "\n"
        if BEGIN in (grammar.definition or ""):
            body = inside.strip("\n").removeprefix(BEGIN).removesuffix(END).strip("\n")
            yield f"{BEGIN}\n{body}\n{END}\n"
