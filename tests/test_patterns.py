"""Patterns that are compiled late; and those with possessive groups, which older versions of Python read wrongly."""

import ast
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_architecture import FILES

import antiphon.core.checks.grammars as grammars
import antiphon.core.protocols.responses.fields as limits
import antiphon.partial_json as json_ending
import antiphon.partial_json as string_member
from antiphon import partial_json, patterns
from antiphon.core.stream.text_calls import nearly_json
from antiphon.files.readers import html
from antiphon.patterns import late_pattern, possessive_by_regex

POSSESSIVE = {
    "brackets": partial_json._BALANCED,
    "comments and literals": grammars._LITERAL_OR_COMMENT,
    "grammars": limits._LARK,
    "markup": html._TOKEN,
    "nearly JSON": nearly_json._STRING,
    "nearly JSON, and commas": nearly_json._STRING_OR_COMMA,
    "strings": json_ending.STRING,
    "whole characters": string_member._WHOLE,
}
# What the patterns look for, and what makes them fail halfway.
TEXTS = st.text(alphabet="\"'\\\\{}[]<>/!?=,:#%a\\nud8f \n", max_size=40)


def test_a_late_pattern_is_compiled_once_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile(pattern: str, flags: int) -> re.Pattern[str]:
        compiled.append(pattern)
        return re.compile(pattern, flags)

    monkeypatch.setattr(patterns, "re", SimpleNamespace(compile=compile))
    late = late_pattern("a+", re.IGNORECASE)
    assert compiled == []
    assert late.sub("b", "xAAx") == "xbx"
    assert [found[0] for found in late.finditer("A aa")] == ["A", "aa"]
    assert late.sub("c", "a") == "c"
    assert (late.pattern, late.flags) == ("a+", re.compile("a+", re.IGNORECASE).flags)
    assert compiled == ["a+"]
    with pytest.raises(AttributeError):
        late.no_method  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", POSSESSIVE)
@given(text=TEXTS)
def test_the_library_reads_them_as_python_does(name: str, text: str) -> None:
    own = POSSESSIVE[name]
    other = possessive_by_regex(own.pattern, own.flags & ~re.UNICODE)
    assert [(found.span(), found.groupdict()) for found in own.finditer(text)] == [
        (found.span(), found.groupdict()) for found in other.finditer(text)
    ]


def test_a_possessive_group_that_fails_halfway_takes_nothing() -> None:
    """The case that Python 3.11.2 has wrong: it took all but the end."""
    pattern = possessive_by_regex(partial_json._BALANCED.pattern, 0)
    found = pattern.match('[{"a": "x"}, {"b": []}] and more')
    assert found is not None
    assert found[0] == ""


def test_no_other_pattern_has_a_possessive_group() -> None:
    calls = [
        (path.name, ast.unparse(node))
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "late_pattern", "Pattern")
    ]
    assert len(calls) > 50
    assert [call for call in calls if re.search(r"\)(?:[*+?]|\{[0-9,]*\})\+", call[1])] == []
