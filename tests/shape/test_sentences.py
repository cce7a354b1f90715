"""`make sentences`: which sentence is the longest, and where it is."""

import subprocess
import sys

from shape.sentences import ROOT, sentences

PAGE = """# A heading

One sentence. Another one, which
has a [link](page.md) and goes on; a colon: ends nothing.

```python
this is not a sentence at all
```

- an item of a list
- `code` begins this one

| a cell | a second cell of it |
"""


def test_a_page_becomes_its_sentences() -> None:
    assert [(each.words, each.line, each.text) for each in sentences("page.md", PAGE)] == [
        (2, 1, "# A heading"),
        (2, 3, "One sentence."),
        (13, 3, "Another one, which has a link and goes on; a colon: ends nothing."),
        (5, 10, "- an item of a list"),
        (4, 11, "- `code` begins this one"),
        (2, 13, "a cell"),
        (5, 13, "a second cell of it"),
    ]


def test_the_longest_are_listed_first() -> None:
    command = [sys.executable, "-m", "shape.sentences", "--most", "5"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    words = [int(line.split()[0]) for line in lines]
    assert len(words) == 5
    assert words == sorted(words, reverse=True)
