"""Slow pure work on what somebody else wrote: a text, a definition or a document.

An exchange only describes the work. Its caller runs `run_check()` where that may take its time: the gateway in a process that
it can kill, a small program in place.
"""

import hashlib

from msgspec import Struct


class Grammar(Struct, frozen=True):
    """The `format` of a custom tool. Without a definition any text will do."""

    type: str = "text"
    syntax: str | None = None
    definition: str | None = None


PATCH_BEGIN, PATCH_END = "*** Begin Patch", "*** End Patch"


def digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


class SchemaWork(Struct, frozen=True, tag="schema"):
    """Does a text follow a JSON schema? `repair`: return one that does, where the intent is clear."""

    schema: bytes
    text: str
    repair: bool


class GrammarWork(Struct, frozen=True, tag="grammar"):
    """Does the input of a custom tool call follow the tool's grammar?"""

    grammar: Grammar
    arguments: str


class DefinitionWork(Struct, frozen=True, tag="definition"):
    """Can a schema (as JSON) or a grammar be compiled?"""

    definition: bytes | Grammar


class Flaw(Struct, frozen=True):
    """Why a schema or a grammar cannot be compiled. `malformed`: it is a grammar in no dialect of its syntax."""

    reason: str
    malformed: bool = False


class DocumentWork(Struct, frozen=True, tag="document"):
    """What is the text of a document, or what are the pages of a PDF, if they are images?"""

    document: bytes


class FileWork(Struct, frozen=True, tag="file"):
    """What is the text of a file on the disk? Its caller must be able to open it: `run_check()` is not."""

    path: str
    filename: str = ""
    content_type: str | None = None
    # It is part of a request: see `file_texts.read_for_model()`.
    is_for_model: bool = False


class StoredFileWork(Struct, frozen=True, tag="stored_file"):
    """What is in an uploaded file: its text, or the image that it is? Its caller must know the files of the request's
    owner: `run_check()` does not."""

    id: str
    is_image: bool = False
    # The largest image, in bytes.
    most_bytes: int = 0


class UrlWork(Struct, frozen=True, tag="url"):
    """What is at an address: the text of a file, or the image that it is? Its caller must be able to fetch it, within its
    policy: `run_check()` is not."""

    url: str
    is_image: bool = False
    # What may be fetched at most, in bytes.
    most_bytes: int = 0


class PageWork(Struct, frozen=True, tag="page"):
    """What is the text of a web page? `charset`: what its server says, if it does."""

    page: bytes
    charset: str | None = None
    # Otherwise it is text as it is.
    is_html: bool = True


class LinesWork(Struct, frozen=True, tag="lines"):
    """What are the next lines of a batch of requests? Its caller must be able to open the file: `run_check()` is not. `start`,
    `number`: where they begin, and how many lines are before them."""

    path: str
    start: int
    number: int
    endpoint: str
    # In bytes, of one line.
    longest: int


CheckWork = (
    SchemaWork | GrammarWork | DefinitionWork | DocumentWork | FileWork | StoredFileWork | UrlWork | PageWork | LinesWork
)


class CheckOutcome(Struct, frozen=True):
    """`text` is the text that was checked, repaired or read; `complaint` says what is wrong with it, None if nothing is."""

    text: str = ""
    complaint: str | None = None
    # What is on the pages of a document without text, as data URLs.
    images: tuple[str, ...] = ()
    # The work did not come to an end: killed at its deadline, or its process died.
    unfinished: bool = False
    # Of a web page; of an uploaded file, its name.
    title: str = ""
    # What kind of complaint it is, of a document: "unsupported_file" or "invalid_file"; of an uploaded file also NO_SUCH_FILE;
    # of a grammar perhaps MALFORMED.
    code: str = ""


# The code of a grammar that is malformed in every dialect. Any other that cannot be compiled may be of another dialect.
MALFORMED = "invalid_grammar"
# The code of a file that is not there, has expired, or is another owner's.
NO_SUCH_FILE = "file_not_found"
NO_URLS = CheckOutcome(
    complaint="nothing is fetched from addresses here, unless the operator sets `fetch_urls`. Send the file itself, or upload "
    "it and send its id",
    code="unsupported_parameter",
)
NO_FILES = CheckOutcome(complaint="there are no uploaded files here", code=NO_SUCH_FILE)
