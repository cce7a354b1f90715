"""What a person gives to `antiphon batch`, as the input file of a batch; and the results, in the order of that."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from antiphon.errors import UNREADABLE

RESPONSES = "/v1/responses"
# Of a line of text.
LINE_ID = "line-{number}"


class Requests(NamedTuple):
    """`prompts`: the file has a prompt on each line, and no requests."""

    lines: int
    endpoint: str
    prompts: bool


def read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Those that are not blank, with their numbers."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if stripped := (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip():
                yield number, stripped


def to_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def write_requests(file: Path, to: BinaryIO, model: str | None) -> Requests:
    """Writes the input file of the batch. `model`: of prompts, and of requests that name none."""
    first = next((line for _, line in read_lines(file)), b"")
    found = to_object(first)
    prompts, count = found is None, 0
    endpoint = RESPONSES if found is None else str(found.get("url") or RESPONSES)
    for number, line in read_lines(file):
        to.write((_prompt(number, line, model) if prompts else _request(line, model)) + b"\n")
        count += 1
    return Requests(count, endpoint, prompts)


def _prompt(number: int, line: bytes, model: str | None) -> bytes:
    body = {"input": line.decode(errors="replace")} | ({"model": model} if model is not None else {})
    id = LINE_ID.format(number=number)
    return msgspec.json.encode({"custom_id": id, "method": "POST", "url": RESPONSES, "body": body})


def _request(line: bytes, model: str | None) -> bytes:
    """What is no request goes as it is: the gateway says what is wrong with it."""
    request = to_object(line) if model is not None else None
    body = request.get("body") if request is not None else None
    if request is None or not isinstance(body, dict) or body.get("model") is not None:
        return line
    return msgspec.json.encode(request | {"body": body | {"model": model}})


def digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


# ---- results ---------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Of a result in the files that were fetched."""

    file: int
    start: int
    size: int


def write_results(file: Path, fetched: list[BinaryIO], to: BinaryIO, *, prompts: bool) -> None:
    """In the order of the input. Of prompts, the texts."""
    places: dict[str, Place] = {}
    unnamed: list[Place] = []
    for at, results in enumerate(fetched):
        start = 0
        for line in results:
            place, start = Place(at, start, len(line)), start + len(line)
            id = (to_object(line) or {}).get("custom_id")
            if isinstance(id, str):
                places.setdefault(id, place)
            else:
                unnamed.append(place)
    for number, line in read_lines(file):
        id = LINE_ID.format(number=number) if prompts else (to_object(line) or {}).get("custom_id")
        if isinstance(id, str) and (found := places.pop(id, None)) is not None:
            result = _read(fetched, found)
            to.write(_text_of(line, result) if prompts else result)
    for place in (*unnamed, *places.values()):
        to.write(_read(fetched, place))


def _read(fetched: list[BinaryIO], place: Place) -> bytes:
    fetched[place.file].seek(place.start)
    return fetched[place.file].read(place.size)


def _text_of(prompt: bytes, line: bytes) -> bytes:
    result = to_object(line) or {}
    response = result.get("response") or {}
    body = response.get("body") or {}
    error = result.get("error") or body.get("error")
    answer = {"error": error} if error else {"text": body.get("output_text") or ""}
    return msgspec.json.encode({"prompt": prompt.decode(errors="replace")} | answer) + b"\n"
