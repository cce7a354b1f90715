"""The lines of a batch of requests: where each is in its file, what it asks for, and what is wrong with it.

A line is `{"custom_id", "method", "url", "body"}`, or `{"custom_id", "params"}` in a batch of messages. A piece of a file is
read at a time, so that neither a large file nor a long line is in memory as a whole.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Raw, Struct

from antiphon.core.checks.work import LinesWork
from antiphon.errors import UNREADABLE, quoted

# One piece: so many bytes, with the line that they end in, and so many lines.
MOST_BYTES = 4 * 1024 * 1024
MOST_LINES = 1_000
# What is skipped of a line that is too long is read in pieces of this size.
SKIPPED = 1024 * 1024
LONGEST_ID = 512
# Of the text that follows what a digest is made of: lines that go on alike are neighbours, too.
LEADING_TEXT = 64
MESSAGES_ENDPOINT = "/v1/messages"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ReadLine(Struct, array_like=True, omit_defaults=True):
    """`order`: by which lines that begin alike are neighbours. `prefix`: a digest of how they begin. With a `message`, it
    cannot be run."""

    number: int
    start: int = 0
    size: int = 0
    custom_id: str | None = None
    model: str = ""
    prefix: str = ""
    order: str = ""
    code: str = ""
    message: str = ""
    param: str | None = None


class ReadPiece(Struct, array_like=True):
    lines: list[ReadLine]
    # Where the next piece begins, and how many lines of the file are before it.
    next: int
    number: int
    is_last: bool


class Line(Struct):
    """Any of its members may be anything: what is wrong is said in words of its own."""

    custom_id: Any = None
    method: Any = None
    url: Any = None
    body: Raw = Raw(b"")
    params: Raw = Raw(b"")


class Body(Struct):
    """What decides which lines are neighbours. What else is in a request, its protocol reads."""

    model: Any = None
    stream: Any = None
    prompt_cache_key: Any = None
    instructions: Any = None
    system: Any = None
    tools: Raw = Raw(b"")
    input: Any = None
    messages: Any = None


class Flaw(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


_to_line = msgspec.json.Decoder(Line).decode
_to_members = msgspec.json.Decoder(dict[str, Raw]).decode
_to_body = msgspec.json.Decoder(Body).decode
_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(ReadPiece).decode


class LineRequest(NamedTuple):
    """`unknown`: the names of members of its line that mean nothing."""

    body: bytes
    unknown: list[str]


# What a line may have.
MEMBERS = frozenset({"custom_id", "method", "url", "body"})
MESSAGE_MEMBERS = frozenset({"custom_id", "params"})


def request_of(line: bytes, endpoint: str) -> LineRequest:
    """The request of a line that has been read."""
    members = _to_members(line.removeprefix(BYTE_ORDER_MARK))
    of_messages = endpoint == MESSAGES_ENDPOINT
    known, name = (MESSAGE_MEMBERS, "params") if of_messages else (MEMBERS, "body")
    return LineRequest(bytes(members[name]), sorted(members.keys() - known))


def read(file: BinaryIO, work: LinesWork) -> str:
    """A piece, as JSON."""
    file.seek(work.start)
    lines, number, end = list[ReadLine](), work.number, work.start
    while end - work.start < MOST_BYTES and len(lines) < MOST_LINES:
        start, text = end, file.readline(work.longest + 1)
        if not text:
            return _encode(ReadPiece(lines, end, number, is_last=True)).decode()
        number, end = number + 1, end + len(text)
        if len(text) > work.longest and not text.endswith(b"\n"):
            end += _skip(file)
            problem = f"The line is longer than {work.longest} bytes, the most that a request may have (`max_body_bytes`)."
            lines.append(ReadLine(number, code="line_too_long", message=problem))
        elif stripped := (text.removeprefix(BYTE_ORDER_MARK) if not start else text).strip():
            lines.append(_read_line(number, start, stripped, len(text), work.endpoint))
    return _encode(ReadPiece(lines, end, number, is_last=False)).decode()


def _skip(file: BinaryIO) -> int:
    """To the end of the line. How many bytes that were."""
    skipped = 0
    while piece := file.readline(SKIPPED):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _read_line(number: int, start: int, text: bytes, size: int, endpoint: str) -> ReadLine:
    custom_id: str | None = None
    try:
        line = _to_line(text)
        custom_id = _custom_id(line)
        body = _to_body(_body(line, endpoint))
        _check(body)
    except Flaw as flaw:
        return ReadLine(number, custom_id=custom_id, code=flaw.code, message=flaw.message, param=flaw.param)
    except UNREADABLE as broken:
        return ReadLine(
            number, custom_id=custom_id, code="invalid_json_line", message=f"This line is not valid JSON: {broken}."
        )
    prefix = prefix_of(body)
    leading = "".join(_user_texts(body))[:LEADING_TEXT]
    return ReadLine(number, start, size, custom_id, body.model or "", prefix, f"{prefix}{leading}")


def _custom_id(line: Line) -> str:
    if line.custom_id is None:
        raise Flaw("missing_required_parameter", "`custom_id` is required.", "custom_id")
    if not isinstance(line.custom_id, str) or not 0 < len(line.custom_id) <= LONGEST_ID or "\0" in line.custom_id:
        raise Flaw("invalid_value", f"`custom_id` must be a text of 1 to {LONGEST_ID} characters.", "custom_id")
    return line.custom_id


def _body(line: Line, endpoint: str) -> Raw:
    of_messages = endpoint == MESSAGES_ENDPOINT
    body, name = (line.params, "params") if of_messages else (line.body, "body")
    if not of_messages and line.method != "POST":
        raise Flaw("invalid_value", f"`method` must be POST. It is {quoted(line.method)}.", "method")
    if not of_messages and line.url != endpoint:
        problem = f"`url` must be the endpoint of the batch, {endpoint}. It is {quoted(line.url)}."
        raise Flaw("mismatched_endpoint", problem, "url")
    if not bytes(body):
        raise Flaw("missing_required_parameter", f"`{name}` is required.", name)
    if not bytes(body).startswith(b"{"):
        raise Flaw("invalid_type", f"`{name}` must be an object.", name)
    return body


def _check(body: Body) -> None:
    if body.stream not in (None, False):
        raise Flaw("invalid_value", "`stream` must be false, or absent: nobody reads a stream of a batch.", "body.stream")
    if body.model is not None and (not isinstance(body.model, str) or "\0" in body.model):
        raise Flaw("invalid_type", "`model` must be the name of a model.", "body.model")


# ---- how a request begins --------------------------------------------------------------------------------------------


def prefix_of(body: Body) -> str:
    """A digest of the key of its cache, if it names one; else of its tools and instructions, which come first in a prompt."""
    if isinstance(body.prompt_cache_key, str):
        parts = ["key", body.prompt_cache_key]
    else:
        parts = [bytes(body.tools).decode(), *_texts([body.instructions, body.system]), *_instructions(body)]
    text = "\0".join([body.model or "", *parts])
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def _messages(body: Body) -> Sequence[Any]:
    messages = body.messages if body.messages is not None else body.input
    return messages if isinstance(messages, list) else [{"role": "user", "content": messages}]


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _instructions(body: Body) -> Iterator[str]:
    for message in _messages(body):
        if _role(message) not in ("system", "developer"):
            return
        yield from _texts([message.get("content")])


def _user_texts(body: Body) -> Iterator[str]:
    first = next((message for message in _messages(body) if _role(message) == "user"), None)
    if first is not None:
        yield from _texts([first.get("content")])


def _texts(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts([part.get("text") if isinstance(part, dict) else part for part in value])
