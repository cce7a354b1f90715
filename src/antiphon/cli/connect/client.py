"""A client that can be connected, and what a gateway has for it."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from antiphon.logs import printable

RESPONSES, MESSAGES, CHAT = "Responses", "Messages", "Chat"
KEY_VARIABLE = "ANTIPHON_API_KEY"
# For a gateway that needs no key: clients send one in any case.
ANY_KEY = "any"
# Stands for a key that is not printed, where a client cannot read it from the environment.
YOUR_KEY = "YOUR_KEY"
# The share of its window that one answer of a model may take.
OUTPUT_SHARE = 4
# Words of a text that are replaced. "Base URL:" is a name of a setting.
PLACES = re.compile(r"\b(?:URL(?!:)|KEY|MODEL|WINDOW|OUTPUT)\b")

Language = Literal["python", "js", "bash", "json", "yaml", "text"]
# How a key is written that the environment has.
FROM_ENVIRONMENT: Mapping[Language, str] = {
    "python": f'os.environ["{KEY_VARIABLE}"]',
    "js": f"process.env.{KEY_VARIABLE}",
    "bash": f'"${KEY_VARIABLE}"',
}


def _in_double_quotes(value: str) -> str:
    """As Python, JSON and YAML have it, without the quotes."""
    return msgspec.json.encode(value).decode()[1:-1]


def _in_single_quotes(value: str) -> str:
    return _in_double_quotes(value).replace('\\"', '"').replace("'", "\\'")


# How a value is written that may have any characters in it. In a shell, it stands without quotes.
ESCAPED: Mapping[Language, Callable[[str], str]] = {
    "python": _in_double_quotes,
    "yaml": _in_double_quotes,
    "js": _in_single_quotes,
    "bash": shlex.quote,
}
# Where a key is a value of the program, which may also be a variable.
QUOTES: Mapping[Language, str] = {"python": '"', "js": "'"}


class ServedModel(Struct, frozen=True):
    name: str
    # In tokens.
    window: int
    sees_images: bool = False

    @property
    def output(self) -> int:
        """The longest answer, in tokens."""
        return self.window // OUTPUT_SHARE


class Facts(Struct, frozen=True):
    """What a gateway has for its clients."""

    # Without /v1.
    url: str
    # The one that is used comes first.
    models: Sequence[ServedModel]
    # None: it needs no key.
    key: str | None = None
    # A key is written as it is, as into a file of the user. Otherwise it is left to the environment.
    shows_key: bool = False

    @property
    def model(self) -> ServedModel:
        return self.models[0]

    @property
    def plain_key(self) -> str:
        """For a client that cannot read it from the environment."""
        if self.key is None:
            return ANY_KEY
        return self.key if self.shows_key else YOUR_KEY


class Client(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    # As `antiphon connect` takes it.
    name: str
    title: str
    # The API that it uses here.
    api: str
    language: Language = "text"
    # A program, commands or lines to enter, with `PLACES`; or what makes the content of a file.
    text: str | None = None
    config: Callable[[Facts], dict[str, Any] | list[Any]] | None = None
    # Where that goes. None: it is a whole program, or commands.
    place: str | None = None
    # Where it can be written: a path from the current folder or the home directory.
    file: str | None = None
    # What shows that it is installed: a command, a package of Python or of Node, or a folder.
    command: str | None = None
    python: str | None = None
    node: str | None = None
    folder: str | None = None
    # Whether the tests run it.
    is_tried: bool = True

    def render(self, facts: Facts) -> str:
        if self.config is not None:
            return msgspec.json.format(msgspec.json.encode(self.config(facts)), indent=2).decode() + "\n"
        assert self.text is not None
        key = _key(self.language, facts)
        words = {
            "URL": facts.url,
            "KEY": key,
            "MODEL": _escaped(self.language, facts.model.name),
            "WINDOW": str(facts.model.window),
            "OUTPUT": str(facts.model.output),
        }
        rendered = PLACES.sub(lambda found: words[found[0]], self.text)
        return _with_import(rendered) if self.language == "python" and "os.environ" in key else rendered


def _key(language: Language, facts: Facts) -> str:
    if facts.key is not None and not facts.shows_key and language in FROM_ENVIRONMENT:
        return FROM_ENVIRONMENT[language]
    quote = QUOTES.get(language, "")
    return f"{quote}{_escaped(language, facts.plain_key)}{quote}"


def _escaped(language: Language, value: str) -> str:
    return ESCAPED.get(language, printable)(value)


def _with_import(program: str) -> str:
    return f"import os\n{'' if program.startswith('import ') else chr(10)}{program}"
