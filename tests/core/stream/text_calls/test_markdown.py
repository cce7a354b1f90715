"""Where a text is in Markdown: in code or not, at the beginning of a line or not, however it is split."""

import pytest

from antiphon.core.stream.text_calls.markdown import MarkdownState, MarkdownWithTildes

# A text, and whether what follows it is code.
CODE = {
    "": False,
    "words": False,
    "`code": True,
    "`code` and": False,
    "``a ` b": True,
    "``a ` b`` and": False,
    "`code\nnext line": False,
    "```\ncode": True,
    "```python\ncode": True,
    "```\ncode\n``` ": False,
    # A fence is closed by as many backticks as have opened it, or by more.
    "````\ncode\n```\nmore": True,
    "````\ncode\n```` ": False,
    "```\ncode\n```` ": False,
    # Nor is it closed by those inside a line.
    "```\nnot the end ``` ": True,
    "```like this``` and": False,
}
TILDES = {
    "~~~\ncode": True,
    "~~~\ncode\n~~~ ": False,
    "~~~~\ncode\n~~~\nmore": True,
    "~~gone~~ and": False,
    "words ~~~ and": False,
    "~~~\n`\n~~~ and": False,
    "```\n~~~\ncode": True,
}


def advanced(state: MarkdownState, pieces: list[str]) -> MarkdownState:
    for piece in pieces:
        state.advance(piece)
    state.end_backticks()
    return state


@pytest.mark.parametrize(("text", "is_code"), CODE.items())
def test_what_is_code(text: str, is_code: bool) -> None:
    for kind in (MarkdownState, MarkdownWithTildes):
        for pieces in ([text], list(text), *([text[:at], text[at:]] for at in range(len(text)))):
            assert advanced(kind(), pieces).in_code is is_code, (kind, pieces)


@pytest.mark.parametrize(("text", "is_code"), TILDES.items())
def test_fences_of_tildes_are_code_where_they_count(text: str, is_code: bool) -> None:
    for pieces in ([text], list(text), *([text[:at], text[at:]] for at in range(len(text)))):
        assert advanced(MarkdownWithTildes(), pieces).in_code is is_code, pieces


@pytest.mark.parametrize(
    ("text", "expected"), {"": True, "a\n": True, "a\n  ": True, "a": False, "a\nb": False, "\n`": False}.items()
)
def test_where_a_line_begins(text: str, expected: bool) -> None:
    assert advanced(MarkdownState(), [text]).line_start is expected


def test_what_follows_a_quotation_mark_is_quoted() -> None:
    for text, quoted in {"": False, "a": False, "say '": True, 'say "': True, "say `": True, "'a": False}.items():
        state = MarkdownState()
        state.advance(text)
        assert state.quoted is quoted, text


def test_a_fence_may_open_only_at_the_beginning_of_a_line_outside_of_code() -> None:
    for text, may_open in {"": True, "a\n": True, "a ": False, "```\na\n": False, "`": False}.items():
        state = MarkdownState()
        state.advance(text)
        assert state.may_open_fence is may_open, text
