"""Reads one document with one reader, and prints what came of it as JSON. It runs in the Python that has the reader, which need
not have Antiphon: `python document_reader.py READER FILE`."""

import json
import logging
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# As the gateway bounds the process that reads documents.
MOST_MEMORY = 2 * 1024**3
ROUNDS = 3
# Seconds after which it is not read once more.
LONG = 2.0

Read = Callable[[str], str]


def antiphon() -> Read:
    from antiphon.files.readers import file_texts

    def read(path: str) -> str:
        with open(path, "rb") as file:
            outcome = file_texts.read(file, os.path.basename(path))
        if outcome.complaint is not None:
            raise ValueError(outcome.complaint)
        return outcome.text

    return read


def markitdown() -> Read:
    library: Any = __import__("markitdown")
    converter = library.MarkItDown(enable_plugins=False)
    return lambda path: str(converter.convert_local(path).text_content)


def kreuzberg() -> Read:
    library: Any = __import__("kreuzberg")
    return lambda path: str(library.extract_file_sync(path).content)


def striprtf() -> Read:
    library: Any = __import__("striprtf.striprtf", fromlist=["rtf_to_text"])
    return lambda path: str(library.rtf_to_text(Path(path).read_bytes().decode("latin-1")))


READERS: dict[str, Callable[[], Read]] = {
    "Antiphon": antiphon,
    "markitdown": markitdown,
    "kreuzberg": kreuzberg,
    "striprtf": striprtf,
}


def main(reader: str, path: str, limit: str = "") -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    began = time.perf_counter()
    read = READERS[reader]()
    found: dict[str, Any] = {"load": time.perf_counter() - began, "text": "", "problem": None, "seconds": 0.0}
    try:
        times: list[float] = []
        while len(times) < ROUNDS and sum(times) < LONG:
            began = time.perf_counter()
            found["text"] = read(path)
            times.append(time.perf_counter() - began)
        found["seconds"] = min(times)
    except BaseException as problem:
        found["problem"] = f"{type(problem).__name__}: {problem}"[:200]
        found["seconds"] = time.perf_counter() - began
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write("\n" + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
