"""The page that lists the forms of calls in text. Run it to write the page: `python tests/support/text_call_page.py`."""

from pathlib import Path

from antiphon.core.stream.text_calls.forms import FORMS

PAGE = Path(__file__).parents[2] / "docs" / "text_calls.md"

INTRODUCTION = """\
# Calls that models write as text

An engine that does not parse the calls of a model leaves them in its text. Antiphon finds them there, in the forms below, and
makes them ordinary calls. `python tests/support/text_call_page.py` writes this page.

- Only tools that were offered count. A call of another tool stays text, exactly as written.
- Nothing counts in code, or directly after a quotation mark. A fenced block that contains only calls does, at the beginning or
  at the end of the answer.
- What has no marker counts only where no other text is beside it.
- A value without a type, as in tags, gets the type that the tool's schema gives the parameter.
- JSON that is almost right is repaired: line breaks inside a string everywhere, other mistakes only after a marker.
- Between a marker and its end, any of the bodies below may be: small models mix them up.
"""


def page() -> str:
    head = ["| form | written by | where it counts | example |", "| --- | --- | --- | --- |"]
    rows = [f"| {_cell(form.name)} | {form.written_by} | {form.place.value} | {_code(form.example)} |" for form in FORMS]
    return "\n".join([INTRODUCTION, *head, *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    replaced = {"&": "&amp;", "<": "&lt;", "`": "&#96;", "|": "&#124;", "*": "&#42;", "[": "&#91;", "\n": "<br>"}
    return f"<code>{''.join(replaced.get(character, character) for character in text)}</code>"


if __name__ == "__main__":
    PAGE.write_text(page())
