"""The worked examples that a small model is shown: how a task goes on to its end, call after call, and how it ends.

They are about what people hardly ask for: a small model copies what fits.
"""

from typing import Any

from msgspec import Struct

# Stands for the search that is offered.
SEARCH = ""


class Step(Struct, frozen=True):
    """Calls that are made together, each with its result."""

    calls: tuple[tuple[str, dict[str, Any], str], ...]


class Example(Struct, frozen=True):
    asks: str
    steps: tuple[Step, ...]
    says: str


def _step(name: str, result: str, /, **arguments: Any) -> Step:
    return Step(((name, arguments, result),))


# With the easy functions of a coding agent: a task of several steps with a check, a question, and a task of a single step. None
# of them fails: shown a failure that is told to the user, a small model gives up at its first one.
AGENT = (
    Example(
        "Write the colour of the roof in house.yaml into roof.txt.",
        (
            _step("read_file", "Done.\nroof: red", path="house.yaml"),
            _step("write_file", "Done.\nSuccess. A roof.txt", path="roof.txt", content="red"),
            _step("shell", "Done.\nred", command="cat roof.txt"),
        ),
        "The roof is red. I wrote that into roof.txt.",
    ),
    Example("What does brisk mean?", (), "Brisk means quick."),
    Example(
        "Correct Wensday in menu.md.",
        (_step("replace_text", "Done. There was no output.", path="menu.md", old_text="Wensday", new_text="Wednesday"),),
        "I corrected Wednesday in menu.md.",
    ),
)
# With functions of their own, which are not offered: those of the client could be copied with their arguments.
FUNCTIONS = (
    Example(
        "When does the museum in Graz open?",
        (_step("museum_hours", '{"opens": "11:00"}', town="Graz"),),
        "The museum in Graz opens at 11:00.",
    ),
    Example("What does brisk mean?", (), "Brisk means quick."),
    Example(
        "Feed the goats and the hens.",
        (Step((("feed", {"animals": "goats"}, "ok"), ("feed", {"animals": "hens"}, "ok"))),),
        "The goats and the hens were fed.",
    ),
    Example("Thanks!", (), "You are welcome."),
)
# For requests whose only tools are searches. The calls are made to the first search that is offered: a small model that is
# shown calls of another function does not search. An answer is a sentence that ends with the number of its passage, or says
# that nothing was found. The numbers of each example begin at 1, as in a first search: the model copied higher ones.
SEARCHES = (
    Example("Hello!", (), "Hello! What shall I look up?"),
    Example(
        "When does the lighthouse ring its bell?",
        (
            _step(
                SEARCH,
                "[1] cranes.md\nThe harbour has two cranes.\n\n[2] lighthouse.md\nIn fog, the bell rings every ninety seconds.",
                query="lighthouse bell",
            ),
        ),
        "The bell rings in fog, once in ninety seconds. [2]",
    ),
    Example(
        "Who painted the lighthouse?",
        (_step(SEARCH, "[1] lighthouse.md\nThe lighthouse is 31 metres high.", query="who painted the lighthouse"),),
        "I found nothing about who painted the lighthouse.",
    ),
    Example(
        "How high is it?",
        (
            _step(
                SEARCH,
                "[1] lighthouse.md\nThe lighthouse is 31 metres high.\n\n[2] cranes.md\nThe harbour has two cranes.",
                query="height of the lighthouse",
            ),
        ),
        "The lighthouse has a height of 31 metres. [1]",
    ),
)
