"""Errors and notices in plain words."""

from pathlib import Path

import antiphon
from antiphon import errors
from antiphon.core.recording.explanations import ERRORS, NOTICES, OTHER_ERROR, OTHER_NOTICE, explain_error, explain_notice
from antiphon.errors import ApiError

SOURCE = "\n".join(path.read_text() for path in Path(antiphon.__file__).parent.rglob("*.py") if path.name != "explanations.py")
CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ApiError)]
# Before a request is read, by the HTTP server: no recording has them.
UNSEEN = {
    "forbidden",
    "method_not_allowed",
    "request_timeout",
    "headers_too_large",
    "unsupported_media_type",
    "upgrade_required",
}


def test_every_error_of_a_request_is_explained() -> None:
    codes = {each.default_code for each in CLASSES if each.default_code} - UNSEEN - {"not_found"}
    assert codes
    assert [code for code in sorted(codes) if explain_error(code) is OTHER_ERROR] == []


def test_every_code_and_notice_that_is_explained_exists() -> None:
    assert [code for code in ERRORS if f'"{code}"' not in SOURCE] == []
    source = SOURCE.replace("{TRIGGER}", "")
    assert [words for words, _ in NOTICES if words not in source] == []


def test_what_is_not_in_the_tables_is_explained_in_general() -> None:
    assert explain_error("something_new") is OTHER_ERROR
    assert explain_error(None) is OTHER_ERROR
    assert explain_notice("something new") == OTHER_NOTICE


def test_the_more_special_words_of_a_notice_count() -> None:
    assert "another server" in explain_notice("input[3]: a compaction of another server cannot be opened here")
    assert explain_notice("field x is unknown and was left out").startswith("The request has a field")
