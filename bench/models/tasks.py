"""Tasks for Codex, two of each of 16 kinds: one for tuning the help, and one that only the table is made of. Six kinds need a
call or two, and are here; those of `agent_tasks` need more of them, or none."""

from bench.models.agent_tasks import AGENT_TASKS
from bench.models.judges import Task, has_json, has_text, is_folder, passes, was_moved

LETTER = "Dear Ana,\nwe did not recieve your parcel.\nKind regards,\nTom\n"
GREETING = 'def greet(name):\n    return "Helo, " + name\n\n\nprint(greet("Ana"))\n'
DRAFT = "# Plan\n\n1. Measure\n2. Change\n"
CITIES = "".join(f"{city}\n" for city in "Oslo Rome Lima Cairo Delhi Tokyo Paris".split())
LOG = "".join(f"{hour:02}:00 request served\n" for hour in range(12))
ADD = 'def add(a, b):\n    """Returns the sum of a and b."""\n    raise NotImplementedError\n'
IS_EVEN = 'def is_even(number):\n    """Returns True if the number is even, and False if it is odd."""\n    pass\n'

SHORT_TASKS = (
    Task(
        "make a file",
        "hello",
        "tuning",
        "Create a file named hello.txt that contains the text: Hello, world!",
        has_text("hello.txt", "Hello, world!"),
    ),
    Task(
        "make a file",
        "settings",
        "final",
        'Create a file named settings.json with this content: {"debug": true, "port": 8080}',
        has_json("settings.json", {"debug": True, "port": 8080}),
    ),
    Task(
        "rename",
        "cities",
        "tuning",
        "Rename the file towns.txt to cities.txt.",
        was_moved("towns.txt", "cities.txt", CITIES),
        {"towns.txt": CITIES},
    ),
    Task(
        "rename",
        "plan",
        "final",
        "Rename draft.md to plan.md. Its content stays the same.",
        was_moved("draft.md", "plan.md", DRAFT),
        {"draft.md": DRAFT},
    ),
    Task(
        "fix a word",
        "letter",
        "tuning",
        "In letter.txt the word receive is misspelled as recieve. Correct it.",
        has_text("letter.txt", LETTER.replace("recieve", "receive")),
        {"letter.txt": LETTER},
    ),
    Task(
        "fix a word",
        "greeting",
        "final",
        "The program greeting.py says Helo. It should say Hello. Fix the file.",
        has_text("greeting.py", GREETING.replace("Helo,", "Hello,")),
        {"greeting.py": GREETING},
    ),
    Task(
        "count lines",
        "data",
        "tuning",
        "Count the lines of the file data.txt and write the number into a new file named count.txt.",
        has_text("count.txt", "7"),
        {"data.txt": CITIES},
    ),
    Task(
        "count lines",
        "log",
        "final",
        "How many lines does server.log have? Write only the number to lines.txt.",
        has_text("lines.txt", "12"),
        {"server.log": LOG},
    ),
    Task(
        "implement a function",
        "add",
        "tuning",
        "Implement the function add in calc.py.",
        passes("from calc import add; assert add(2, 3) == 5 and add(-1, 1) == 0"),
        {"calc.py": ADD},
    ),
    Task(
        "implement a function",
        "parity",
        "final",
        "The function is_even in parity.py does nothing yet. Write its body.",
        passes("from parity import is_even; assert is_even(4) is True and is_even(7) is False and is_even(0) is True"),
        {"parity.py": IS_EVEN},
    ),
    Task("make a folder", "build", "tuning", "Make a folder named build.", is_folder("build")),
    Task("make a folder", "images", "final", "Create the directory docs/images.", is_folder("docs/images")),
)

TASKS = (*SHORT_TASKS, *AGENT_TASKS)
