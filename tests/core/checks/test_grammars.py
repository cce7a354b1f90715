"""Custom tools with a grammar: what follows it, what is said of the rest, and what can be mended."""

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from antiphon.core.checks.grammars import Unreadable, check_definition, complaint, repair
from antiphon.core.checks.work import MALFORMED, Grammar

# In the manner of Codex's apply_patch, with a terminal that may be empty.
PATCH = Grammar(
    type="grammar",
    syntax="lark",
    definition="""
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: add | remove
add: "*** Add File: " name LF line+
remove: "*** Delete File: " name LF
name: /(.+)/
line: "+" /(.*)/ LF
%import common.LF
""",
)
NUMBER = Grammar(type="grammar", syntax="regex", definition=r"\d+(\.\d+)?")
BODY = "*** Add File: a.txt\n+hi\n+\n"
WHOLE = f"*** Begin Patch\n{BODY}*** End Patch\n"


@pytest.mark.parametrize(("grammar", "text"), [(PATCH, WHOLE), (PATCH, WHOLE.rstrip("\n")), (NUMBER, "12"), (NUMBER, "1.5")])
def test_a_text_that_follows_its_grammar_is_left_as_it_is(grammar: Grammar, text: str) -> None:
    assert complaint(grammar, text) is None
    assert repair(grammar, text) == text


@pytest.mark.parametrize(
    ("grammar", "text", "said"),
    [
        (PATCH, "*** Begin Patch\n*** Add File: a.txt\nno plus\n*** End Patch\n", "line 3"),
        (PATCH, "I would rather not.", "line 1"),
        (PATCH, "", "line 1"),
        (NUMBER, "twelve", "pattern"),
    ],
)
def test_what_is_wrong_is_said_and_where(grammar: Grammar, text: str, said: str) -> None:
    found = complaint(grammar, text)
    assert found is not None
    assert said in found
    assert repair(grammar, text) == text


@pytest.mark.parametrize(
    "text",
    [BODY, f"*** Begin Patch\n{BODY}", f"{BODY}*** End Patch", f"```\n{WHOLE}```", f"```patch\n{BODY}\n```\n", f"\n\n{WHOLE}"],
)
def test_a_patch_that_misses_only_its_envelope_gets_it(text: str) -> None:
    assert repair(PATCH, text).strip() == WHOLE.strip()
    assert complaint(PATCH, repair(PATCH, text)) is None


def test_a_number_in_a_fence_is_taken_out_of_it() -> None:
    assert repair(NUMBER, "```\n12\n```") == "12"


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(type="grammar", syntax="lark", definition="start: ("),
        Grammar(type="grammar", syntax="regex", definition="("),
        Grammar(type="grammar", syntax="ebnf", definition="x"),
    ],
)
def test_a_grammar_that_cannot_be_compiled_says_why(grammar: Grammar) -> None:
    assert check_definition(grammar).complaint
    with pytest.raises(Unreadable):
        complaint(grammar, "anything")


@pytest.mark.parametrize(
    ("syntax", "definition"),
    [
        ("lark", "start: ("),
        ("lark", 'start: "a" )'),
        ("lark", 'start: "a'),
        ("lark", "hello world"),
        ("lark", "start = a"),
        ("lark", 'start: x\nx: "y" ]'),
        ("lark", 'start: "a" ? ? ?'),
        ("lark", '# "a" & b\nstart: "<@{~" (  // a-b'),
        ("regex", "("),
        ("regex", "a)"),
        ("regex", "[a"),
        ("regex", "*a"),
        ("regex", "a{2,1}"),
        ("regex", "a\\"),
    ],
)
def test_what_is_no_grammar_is_malformed(syntax: str, definition: str) -> None:
    outcome = check_definition(Grammar("grammar", syntax, definition))
    assert outcome.complaint
    assert outcome.code == MALFORMED


@pytest.mark.parametrize(
    ("syntax", "definition"),
    [
        ("lark", 'start: %json {"type": "object"}'),
        ("lark", "start: <|tool|> (\n"),
        ("lark", "start: @other"),
        ("lark", "start: A & B\nA: /a/\nB: /b/"),
        ("lark", "start: ~A\nA: /a/"),
        ("lark", 'start: "a"{1,3}'),
        ("lark", "start[lazy]: /a/"),
        ("lark", 'start[stop="\\n"]: /a/'),
        ("lark", 'start: one-two\none-two: "a"'),
        ("lark", 'start: oneTwo\noneTwo: "a"'),
        ("lark", '%llguidance {"no_forcing": true}\nstart: "a"'),
        ("lark", "start: nowhere"),
        ("lark", "start: /(/"),
        ("regex", r"\u{1F600}"),
        ("regex", r"\x{41}"),
        ("regex", "(?U)a"),
        ("regex", "a**"),
        ("regex", "[z--a]"),
        ("ebnf", "x"),
    ],
)
def test_a_grammar_of_another_dialect_is_only_not_understood(syntax: str, definition: str) -> None:
    outcome = check_definition(Grammar("grammar", syntax, definition))
    assert outcome.complaint
    assert outcome.code == ""


def test_a_pattern_that_takes_for_ever_is_given_up() -> None:
    endless = Grammar(type="grammar", syntax="regex", definition=r"(a|aa|a?a)+(b|c)\1{5}")
    assert check_definition(endless).complaint is None
    assert complaint(endless, "a" * 5000) in (None, "the text does not match the pattern")


class OpenedFiles:
    """Every path that the interpreter opens while one of these is entered. Audit hooks cannot be removed, so there is one."""

    watching: ClassVar["OpenedFiles | None"] = None
    is_hooked: ClassVar[bool] = False

    def __init__(self) -> None:
        self.paths: list[str] = []

    @classmethod
    def audit(cls, event: str, arguments: tuple[Any, ...]) -> None:
        if cls.watching is not None and event == "open":
            cls.watching.paths.append(str(arguments[0]))

    def __enter__(self) -> "OpenedFiles":
        if not OpenedFiles.is_hooked:
            sys.addaudithook(OpenedFiles.audit)
            OpenedFiles.is_hooked = True
        OpenedFiles.watching = self
        return self

    def __exit__(self, *error: object) -> None:
        OpenedFiles.watching = None


@pytest.mark.parametrize("path", ["secret.WORD", ".secret.WORD", "python.NAME", "unicode.LETTER", "lark.RULE"])
def test_no_file_is_opened_for_a_grammar_that_imports_anything_but_common(path: str) -> None:
    name = path.rpartition(".")[2]
    grammar = Grammar(type="grammar", syntax="lark", definition=f"start: {name}\n%import {path}")
    with OpenedFiles() as opened:
        reason = check_definition(grammar).complaint
    assert reason is not None
    assert "only `common` can be imported" in reason
    assert opened.paths == []


def test_a_grammar_that_imports_common_opens_that_file_alone() -> None:
    grammar = Grammar(type="grammar", syntax="lark", definition="start: HEXDIGIT+\n%import common.HEXDIGIT")
    with OpenedFiles() as opened:
        assert check_definition(grammar).complaint is None
    assert {Path(path).name for path in opened.paths} == {"common.lark"}
    assert complaint(grammar, "beef") is None
