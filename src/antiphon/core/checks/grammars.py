"""A custom tool's grammar: whether a text follows it, what is wrong if not, and the repair of a patch without its frame."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
import regex
from lark import Lark
from lark.exceptions import GrammarError, LarkError, UnexpectedInput
from lark.load_grammar import FromPackageLoader, find_grammar_errors

from antiphon.core.checks.work import MALFORMED, CheckOutcome, Grammar
from antiphon.core.checks.work import PATCH_BEGIN as BEGIN
from antiphon.core.checks.work import PATCH_END as END
from antiphon.partial_json import whole_input
from antiphon.patterns import late_pattern, possessive

# A pattern may take this long on one text. A longer text is not parsed at all: it would take too long.
PATTERN_SECONDS = 0.2
LONGEST_TEXT = 64 * 1024
LONGEST_REASON = 200
# Lark has no terminals that may be empty. Tools use them for "the rest of the line, if any".
_MAYBE_EMPTY = late_pattern(r"/\(?\.\*\)?/")
# What is not closed ends with its line.
_LITERAL_OR_COMMENT = possessive(r"""(?://|\#)[^\n]*+|"(?:\\.|[^"\\\n])*+"?|/(?:\\.|[^/\\\n])*+/?""")
# What OpenAI's dialect of Lark has in addition: %json, <token>, @grammar, a & b, ~a, a{1,3}, name[options], other names.
_BEYOND_LARK = late_pattern(r"[<@&~{]|%(?!(?:import|ignore|declare|override|extend)\b)|\w\[|\w-(?!>)|[a-z][A-Z]|[A-Z][a-z]")
# Of a pattern, whatever its dialect.
MALFORMED_PATTERNS = frozenset(
    {
        "missing )",
        "unbalanced parenthesis",
        "unterminated character set",
        "nothing to repeat",
        "min repeat greater than max repeat",
        "bad escape (end of pattern)",
    }
)
_FENCE = late_pattern(r"\s*```[a-z_]*\n(?P<inside>.*?)\n?```\s*", re.DOTALL)

# Rules that come with Lark itself. The loader is tried first, and an error of it ends the search.
COMMON = "common.lark"
_own_grammars = FromPackageLoader("lark", ("grammars",))

Complaint = Callable[[str], str | None]


def check_definition(grammar: Grammar) -> CheckOutcome:
    """Whether the grammar can be compiled."""
    try:
        _checker(grammar)
    except Unreadable as wrong:
        return CheckOutcome(complaint=str(wrong), code=MALFORMED if _is_malformed(grammar, wrong) else "")
    return CheckOutcome()


def check(grammar: Grammar, arguments: str) -> CheckOutcome:
    """`arguments` are those of the function that stands for the tool: one string, which has to follow the grammar."""
    text = whole_input(arguments)
    repaired = repair(grammar, text)
    if repaired != text:
        arguments = msgspec.json.encode({"input": repaired}).decode()
    return CheckOutcome(arguments, complaint(grammar, repaired))


def complaint(grammar: Grammar, text: str) -> str | None:
    """What is wrong with the text; None if nothing is, or if it is too long to be checked."""
    return None if len(text) > LONGEST_TEXT else _checker(grammar)(text)


class Unreadable(ValueError):
    """The grammar itself cannot be compiled."""


@lru_cache(maxsize=64)
def _checker(grammar: Grammar) -> Complaint:
    try:
        compile_grammar = SYNTAXES[grammar.syntax or ""]
    except KeyError:
        raise Unreadable(f"its syntax must be one of: {', '.join(SYNTAXES)}") from None
    try:
        return compile_grammar(grammar.definition or "")
    except (LarkError, regex.error, RecursionError) as wrong:
        raise Unreadable(str(wrong).partition("\n")[0][:LONGEST_REASON].strip(" :")) from wrong


def _is_malformed(grammar: Grammar, wrong: Unreadable) -> bool:
    """It is malformed, and not only one that this gateway does not understand: OpenAI takes more than Lark and Python know."""
    if grammar.syntax == "regex":
        return getattr(wrong.__cause__, "msg", None) in MALFORMED_PATTERNS
    return grammar.syntax == "lark" and _is_malformed_lark(grammar.definition or "")


def _is_malformed_lark(definition: str) -> bool:
    if _BEYOND_LARK.search(_LITERAL_OR_COMMENT.sub(" ", definition)) is not None:
        return False
    try:
        return bool(find_grammar_errors(definition))
    except Exception:
        # It finds the first error, and fails where it cannot go on after that.
        return True


def _load_common(base_path: Any, grammar_path: str) -> Any:
    """The only file that a grammar may import from. Lark would look beside the program, and open what it finds there."""
    if grammar_path != COMMON:
        raise GrammarError(f"%import of {grammar_path.removesuffix('.lark')!r}: only `common` can be imported")
    return _own_grammars(None, grammar_path)


def _lark(definition: str) -> Complaint:
    source = _MAYBE_EMPTY.sub("(/.+/)?", definition)
    try:
        # Much faster, where the grammar allows it.
        parser = Lark(source, parser="lalr", import_paths=[_load_common])
    except LarkError:
        parser = Lark(source, parser="earley", import_paths=[_load_common])

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


def repair(grammar: Grammar, text: str) -> str:
    """The text, or one that follows the grammar and differs only in its wrapping."""
    if complaint(grammar, text) is None:
        return text
    return next((other for other in _rewrapped(grammar, text) if complaint(grammar, other) is None), text)


def _rewrapped(grammar: Grammar, text: str) -> Iterator[str]:
    fence = _FENCE.fullmatch(text)
    for inside in (text, fence["inside"]) if fence else (text,):
        yield inside
        yield inside.strip() + "\n"
        if BEGIN in (grammar.definition or ""):
            body = inside.strip("\n").removeprefix(BEGIN).removesuffix(END).strip("\n")
            yield f"{BEGIN}\n{body}\n{END}\n"
