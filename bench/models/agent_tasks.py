"""Tasks for Codex that need several steps, an answer in words, or no step at all."""

from bench.models.judges import (
    LONG,
    Task,
    both,
    has_text,
    has_texts,
    is_missing,
    passes,
    prints,
    says,
    says_that_it_failed,
    was_moved,
)

PRICE = "def reduced(price, percent):\n    return price + price * percent / 100\n"
TEST_PRICE = 'from price import reduced\n\nassert reduced(200, 10) == 180, reduced(200, 10)\nprint("passed")\n'
WORDS = "def longest(words):\n    return min(words, key=len)\n"
TEST_WORDS = (
    'from words import longest\n\nassert longest(["a", "abc", "ab"]) == "abc", longest(["a", "abc", "ab"])\nprint("passed")\n'
)

VERSIONS = {
    "setup.cfg": "[metadata]\nname = weather\nversion = 1.2.0\n",
    "README.md": "# Weather\n\nThis is version 1.2.0 of the program.\n",
    "app.py": 'VERSION = "1.2.0"\n\nprint("weather", VERSION)\n',
}
COMPANY = {
    "about.txt": "Acme makes chairs.\n",
    "contact.txt": "Write to Acme, 5 Hill Street.\n",
    "terms.txt": "Goods stay the property of Acme until they are paid for.\n",
}

APP_LOG = (
    "10:00 INFO started\n10:02 ERROR disk is full\n10:05 INFO request served\n10:06 ERROR disk is full\n10:09 WARNING slow\n"
    "10:11 INFO request served\n10:12 ERROR connection lost\n10:15 INFO stopped\n"
)
SALES = "product,amount\nchair,120\ntable,310\nlamp,45\nshelf,85\n"

CONFIG = {
    "config/cache.ini": "[cache]\nsize = 512\nfolder = /var/cache/app\n",
    "config/mail.ini": "[mail]\nserver = mail.example.com\nsender = app@example.com\n",
    "config/network.ini": "[server]\nhost = 0.0.0.0\nport = 9417\n",
}
DOCS = {
    "docs/network.md": "# Network\n\nQuestions about the network go to nora@example.com.\n",
    "docs/backups.md": "# Backups\n\nBackups run at night. Responsible: li@example.com\n",
    "docs/printers.md": "# Printers\n\nThe printers are on the second floor.\n",
}

OLD = "Notes of last year.\n"
MAIN = 'print("hello")\n'
RELEASE = "Product: Lighthouse\nVersion: 4.7.2\nDate: 2025-11-03\n"
PROJECT = "# Garden project\n\nOwner: Ida\nBudget: 900\nDeadline: 14 March\n"
NOTES = "Call the plumber.\n"
PRICES = "chair 70\ntable 140\n"

REPORT = 'with open("out/report.txt", "w") as file:\n    file.write("all is well\\n")\nprint("written")\n'
START = 'import json\n\nwith open("settings.json") as file:\n    port = json.load(file)["port"]\nprint("ready on port", port)\n'
BROKEN_SETTINGS = '{\n  "host": "localhost",\n  "port": 8080,\n}\n'

AGENT_TASKS = (
    Task(
        "fix a failing test",
        "discount",
        "tuning",
        "The test fails. Run it with: python3 test_price.py. Then find the mistake in price.py and correct it.",
        both(
            has_text("test_price.py", TEST_PRICE),
            passes("from price import reduced; assert reduced(200, 10) == 180 and reduced(50, 50) == 25"),
        ),
        {"price.py": PRICE, "test_price.py": TEST_PRICE},
        LONG,
    ),
    Task(
        "fix a failing test",
        "longest",
        "final",
        "The command python3 test_words.py fails. Find out why, and fix words.py so that it passes.",
        both(
            has_text("test_words.py", TEST_WORDS),
            passes('from words import longest; assert longest(["a", "abc"]) == "abc" and longest(["xyz", "x"]) == "xyz"'),
        ),
        {"words.py": WORDS, "test_words.py": TEST_WORDS},
        LONG,
    ),
    Task(
        "change several files",
        "version",
        "tuning",
        "Change the version 1.2.0 to 1.3.0 in setup.cfg, README.md and app.py.",
        has_texts({name: text.replace("1.2.0", "1.3.0") for name, text in VERSIONS.items()}),
        VERSIONS,
        LONG,
    ),
    Task(
        "change several files",
        "company",
        "final",
        "Our company Acme is now called Apex. Replace the name in about.txt, contact.txt and terms.txt.",
        has_texts({name: text.replace("Acme", "Apex") for name, text in COMPANY.items()}),
        COMPANY,
        LONG,
    ),
    Task(
        "sum up a log",
        "errors",
        "tuning",
        "Read app.log, and write the number of its ERROR lines into a new file named errors.txt.",
        has_text("errors.txt", "3"),
        {"app.log": APP_LOG},
        LONG,
    ),
    Task(
        "sum up a log",
        "sales",
        "final",
        "Add up the amounts in sales.csv, and write only the total into a new file named total.txt.",
        has_text("total.txt", "560"),
        {"sales.csv": SALES},
        LONG,
    ),
    Task(
        "look something up",
        "port",
        "tuning",
        "Which port does the server use? It is in one of the files in the folder config. Write only the number into port.txt.",
        has_text("port.txt", "9417"),
        CONFIG,
        LONG,
    ),
    Task(
        "look something up",
        "backups",
        "final",
        "Which e-mail address is responsible for backups? It is in one of the files in the folder docs. Write only the address "
        "into owner.txt.",
        has_text("owner.txt", "li@example.com"),
        DOCS,
        LONG,
    ),
    Task(
        "several steps",
        "archive",
        "tuning",
        "Make a folder named archive, move old.txt into it, and then create a file named done.txt that contains the word: done",
        both(was_moved("old.txt", "archive/old.txt", OLD), has_text("done.txt", "done")),
        {"old.txt": OLD},
        LONG,
    ),
    Task(
        "several steps",
        "package",
        "final",
        "Make a folder named app, move main.py into it, and then create a file app/version.txt that contains the text: 0.1",
        both(was_moved("main.py", "app/main.py", MAIN), has_text("app/version.txt", "0.1")),
        {"main.py": MAIN},
        LONG,
    ),
    Task(
        "answer from a file",
        "release",
        "tuning",
        "Which version is in release.txt? Answer in one sentence.",
        both(says("4.7.2"), has_text("release.txt", RELEASE)),
        {"release.txt": RELEASE},
    ),
    Task(
        "answer from a file",
        "deadline",
        "final",
        "Read project.md and tell me when the deadline is.",
        both(says("14 March", "March 14"), has_text("project.md", PROJECT)),
        {"project.md": PROJECT},
    ),
    Task("answer without a tool", "capital", "tuning", "What is the capital of France?", says("Paris")),
    Task("answer without a tool", "hour", "final", "How many minutes are in two hours?", says("120")),
    Task(
        "impossible",
        "report",
        "tuning",
        "Rename report.txt to final.txt.",
        both(is_missing("final.txt"), has_text("notes.txt", NOTES), says_that_it_failed),
        {"notes.txt": NOTES},
    ),
    Task(
        "impossible",
        "budget",
        "final",
        "In the file budget.csv, change the price of the chair to 80.",
        both(is_missing("budget.csv"), has_text("prices.txt", PRICES), says_that_it_failed),
        {"prices.txt": PRICES},
    ),
    Task(
        "recover from an error",
        "folder",
        "tuning",
        "Run python3 make_report.py. If it fails, correct what is wrong and run it again, until out/report.txt is there.",
        has_text("out/report.txt", "all is well"),
        {"make_report.py": REPORT},
        LONG,
    ),
    Task(
        "recover from an error",
        "settings-file",
        "final",
        "Run python3 start.py. It fails because of a mistake in settings.json. Correct that file, so that the program runs.",
        both(has_text("start.py", START), prints("start.py", "ready on port 8080")),
        {"start.py": START, "settings.json": BROKEN_SETTINGS},
        LONG,
    ),
    Task(
        "write a program",
        "countdown",
        "tuning",
        "Write a program countdown.py that prints the numbers from 5 down to 1, each on a line of its own. Run it to check.",
        prints("countdown.py", "5 4 3 2 1"),
        {},
        LONG,
    ),
    Task(
        "write a program",
        "squares",
        "final",
        "Write a program squares.py that prints the squares of 1, 2, 3, 4 and 5, each on a line of its own. Run it to check.",
        prints("squares.py", "1 4 9 16 25"),
        {},
        LONG,
    ),
)
