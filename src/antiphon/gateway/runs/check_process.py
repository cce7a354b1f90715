"""The process that runs checks: one piece of work after another, from standard input to standard output.

It is killed when a check takes too long, so it keeps nothing but compiled schemas and grammars. It ends when its input does:
with the gateway.
"""

import contextlib
import logging
import math
import signal
import sys
from typing import BinaryIO

import msgspec

from antiphon.core.checks.work import (
    NO_FILES,
    NO_URLS,
    CheckOutcome,
    CheckWork,
    DocumentWork,
    FileWork,
    Grammar,
    GrammarWork,
    LinesWork,
    PageWork,
    SchemaWork,
    StoredFileWork,
    UrlWork,
)

# Each message is preceded by its size.
SIZE_BYTES = 4
MOST_MEMORY = 2 * 1024**3

_decode = msgspec.msgpack.Decoder(CheckWork).decode
_encode = msgspec.msgpack.Encoder().encode


def write_message(stream: BinaryIO, message: bytes) -> None:
    stream.write(len(message).to_bytes(SIZE_BYTES, "big") + message)
    stream.flush()


def read_message(stream: BinaryIO) -> bytes | None:
    """None: the stream is at its end."""
    head = stream.read(SIZE_BYTES)
    if len(head) < SIZE_BYTES:
        return None
    size = int.from_bytes(head, "big")
    message = stream.read(size)
    return message if len(message) == size else None


def run_check(work: CheckWork) -> CheckOutcome:
    """Runs the work in place. There is no limit to the time that something of a client may take."""
    # Imported here: the libraries are large, and a process that hands the work on never needs them.
    from antiphon.core.checks import grammars, schemas
    from antiphon.files.readers import file_texts
    from antiphon.tools.web_search import page_text

    if isinstance(work, SchemaWork):
        return schemas.check(work.schema, work.text, repair=work.repair)
    if isinstance(work, GrammarWork):
        return grammars.check(work.grammar, work.arguments)
    if isinstance(work, DocumentWork):
        return file_texts.read_for_model(work.document)
    if isinstance(work, FileWork | StoredFileWork | LinesWork):
        return NO_FILES
    if isinstance(work, UrlWork):
        return NO_URLS
    if isinstance(work, PageWork):
        return (page_text.read if work.is_html else page_text.read_plain)(work.page, work.charset)
    if isinstance(work.definition, Grammar):
        return grammars.check_definition(work.definition)
    return CheckOutcome(complaint=schemas.complaint_about(work.definition))


def answer(message: bytes) -> CheckOutcome:
    try:
        work = _decode(message)
        return read_file(work) if isinstance(work, FileWork | LinesWork) else run_check(work)
    except Exception as failed:
        # A library may fail in any way on what strangers write; the next check is not affected.
        print(f"check failed: {type(failed).__name__}: {failed}", file=sys.stderr)  # noqa: T201
        return CheckOutcome(unfinished=True)


def read_file(work: FileWork | LinesWork) -> CheckOutcome:
    """From the disk: it may be too large to come with the message."""
    # The gateway imports this module, too, and reads no files.
    from antiphon.files.readers import batch_lines, file_texts

    with open(work.path, "rb") as file:
        if isinstance(work, LinesWork):
            return CheckOutcome(batch_lines.read(file, work))
        if work.is_for_model:
            return file_texts.read_for_model(file, work.content_type)
        return file_texts.read(file, work.filename, work.content_type)


def limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main(deadline: float) -> None:
    # Imported before the first check, whose deadline it would count for.
    from antiphon.core.checks import grammars, schemas  # noqa: F401
    from antiphon.files.readers import file_texts  # noqa: F401

    # What is wrong with a PDF is its owner's business, and nothing for a log.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    limit_memory()
    # The gateway kills this process at the deadline. The alarm is for the case that the gateway itself was killed.
    alarm = getattr(signal, "alarm", lambda seconds: None)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    write_message(stdout, b"ready")
    while (message := read_message(stdin)) is not None:
        alarm(math.ceil(2 * deadline) + 1)
        outcome = answer(message)
        alarm(0)
        write_message(stdout, _encode(outcome))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(float(sys.argv[1]))
