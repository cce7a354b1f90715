"""Documents and questions that measure how well a search finds.

The documents are entries of the Jargon File 4.4.7, which is in the public domain (`make.py`). The questions were written from
the entries, and both were fixed before the search was tuned: who changes them must measure everything again.
"""

from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

FOLDER = Path(__file__).parent

# In the document's own words; about something that it mentions, half in other words; in other words altogether.
Kind = Literal["words", "detail", "paraphrase"]


class Question(NamedTuple):
    text: str
    # The id of the document that answers it.
    document: str
    kind: Kind


@cache
def documents() -> dict[str, str]:
    found = {}
    for part in (FOLDER / "jargon.txt").read_text(encoding="utf-8").removeprefix("=== ").split("\n=== "):
        name, _, text = part.partition("\n")
        found[name] = text.strip()
    return found


@cache
def questions() -> list[Question]:
    rows = [line.split(" | ") for line in (FOLDER / "questions.txt").read_text(encoding="utf-8").splitlines()]
    return [Question(text, document, cast(Kind, kind)) for kind, document, text in rows]
