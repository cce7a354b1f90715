"""Every sentence that Antiphon writes for a model is in one place, and is known where answers are read."""

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.prompt import citable, loops, turns
from antiphon.core.toolbox import easy_function, prompt_texts
from antiphon.core.toolbox.easier_tools import adaptations, commands, patches
from antiphon.core.toolbox.prompt_texts import PROMPT_SENTENCES, REPORTS

# What is no sentence: the forms of tools, calls and results in words; and what stands in the field of a sentence.
FORMS = ("INTRODUCTION", "RESULT_BEGINS", "RESULT_ENDS", "MADE_ALREADY")
TEXTS = {name: text for name, text in vars(prompt_texts).items() if name.isupper() and isinstance(text, str)}
# What writes results and questions for the model.
WRITERS = (adaptations, commands, patches, easy_function, turns, loops, citable)


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_is_one_that_answers_are_shown_without_or_one_that_they_may_have(name: str) -> None:
    places = (TEXTS[name] in PROMPT_SENTENCES, TEXTS[name] in REPORTS, name in FORMS)
    assert places.count(True) == 1


def literals(module: ModuleType) -> Iterator[str]:
    """The texts of a module, but for its docstrings."""
    tree = ast.parse(inspect.getsource(module))
    statements = [each.value for each in ast.walk(tree) if isinstance(each, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in statements:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)  # type: ignore[misc]


def described(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "description":
                yield member
            yield from described(member)


def is_sentence(text: str) -> bool:
    return len(text.split()) > 2 and re.match(r"[({]?[A-Za-z]", text) is not None and text.rstrip().endswith((".", ":", ")"))


DESCRIPTIONS = {
    text
    for row in adaptations.ADAPTATIONS
    for function in row.functions
    for text in (function.description, *described(function.parameters))
}


@pytest.mark.parametrize("module", WRITERS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_what_writes_for_the_model_has_no_sentences_of_its_own(module: ModuleType) -> None:
    found = [text for text in literals(module) if is_sentence(text)]
    assert [text for text in found if text not in DESCRIPTIONS] == []


@pytest.mark.parametrize("sentence", PROMPT_SENTENCES)
def test_such_a_sentence_would_be_found(sentence: str) -> None:
    assert is_sentence(sentence)


CODES = st.sampled_from(["0", "1", "-9"])
MISSING = "Failed to find expected lines in /a b.txt:\nHelo\n"
PRINTED = st.sampled_from(["", "ab", "a\nb\n", MISSING, "Exit code: 1"])
FORMS_OF_CODES = ("Exit code: {}\nOutput:\n", "Process exited with code {}\nOutput:\n")
HEADS = st.sampled_from(["", "apply_patch verification failed: ", *FORMS_OF_CODES])

# The longest first: one may be the beginning of another.
KNOWN = sorted(
    (re.escape(text).replace(r"\{code\}", r"-?\d+").replace(r"\{path\}", r"[^\n]+") for text in (*PROMPT_SENTENCES, *REPORTS)),
    key=len,
    reverse=True,
)


@given(CODES, PRINTED, HEADS, st.sampled_from([(), ("read_file", "replace_text")]))
def test_what_a_result_of_an_easy_function_has_beside_the_output_is_known(
    code: str, output: str, head: str, offered: tuple[str, ...]
) -> None:
    reported = head.format(code) + output
    left = re.sub("|".join(KNOWN), "", commands.plain_result(reported, offered))
    assert all(line.strip() in reported for line in left.split("\n"))
