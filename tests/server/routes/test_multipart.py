"""Forms with files, read piece by piece."""

import contextlib
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.server.routes.multipart import MOST_HEADERS, MOST_PARTS, FormReader, PartEnd, PartStart, headers_to_start

BOUNDARY = b"b-1"
# Contents that look like boundaries.
TRICKY = [
    b"",
    b"\r\n",
    b"--",
    b"\r\n--b-",
    b"\r\n--b-\r\n\r\n",
    b"--b-1",
    b"\r\n\r\n--b-2--",
    b"\r",
    b"\n--b-1\r\n",
    bytes(range(256)),
]


def part(name: str, content: bytes, disposition: str = "") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"{disposition}\r\nContent-Type: text/plain\r\n\r\n'
    return b"--" + BOUNDARY + b"\r\n" + head.encode() + content + b"\r\n"


END = b"--" + BOUNDARY + b"--"


def read(body: bytes, *cuts: int) -> list[tuple[str, bytes]]:
    """The parts by name, of a body that was cut in these places."""
    reader = FormReader(BOUNDARY)
    found: list[tuple[str, bytes]] = []
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    for start, end in itertools.pairwise(places):
        for event in reader.receive(body[start:end]):
            if isinstance(event, PartStart):
                name, content = event.name, bytearray()
            elif isinstance(event, PartEnd):
                found.append((name, bytes(content)))
            else:
                content += event
    reader.finish()
    return found


CONTENT = st.one_of(
    st.sampled_from(TRICKY), st.binary(max_size=40), st.lists(st.sampled_from(TRICKY), max_size=4).map(b"".join)
)


@given(contents=st.lists(CONTENT, min_size=1, max_size=3), cuts=st.lists(st.integers(0, 600), max_size=20), extra=st.booleans())
@example(contents=TRICKY[:3], cuts=list(range(600)), extra=True)
def test_any_split_of_a_form_gives_the_same_parts(contents: list[bytes], cuts: list[int], extra: bool) -> None:
    parts = [(str(number), content) for number, content in enumerate(contents) if b"\r\n--b-1" not in b"\r\n" + content]
    body = b"".join(part(*each) for each in parts) + END
    if extra:
        body = b"preamble\r\n" + body + b"\r\nepilogue --b-1"
    assert read(body, *cuts) == parts


def test_every_byte_may_come_alone() -> None:
    contents = [content for content in TRICKY if b"\r\n--b-1" not in b"\r\n" + content]
    parts = [(str(number), content) for number, content in enumerate(contents)]
    body = b"".join(part(*each) for each in parts) + END
    assert read(body, *range(len(body))) == parts


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form",
        b"--b-1",
        b"--b-1\r\n\r\nno name\r\n" + END,
        b"--b-1 x\r\n\r\n" + END,
        b"--b-1" + b" " * MOST_HEADERS * 2,
        part("a", b"x") + part("b", b"y").replace(BOUNDARY, BOUNDARY + b" z", 1) + END,
        part("a", b"")[:-2],
        part("a", b"x"),
        b"--b-1\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n" + END,
        b"--b-1\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + END,
        b"--b-1\r\nX: " + b"x" * MOST_HEADERS + b"\r\n\r\n" + END,
        b"--b-1\r\nX: " + b"x" * 2 * MOST_HEADERS,
        part("a", b"x") * (MOST_PARTS + 1) + END,
        part("a", b"x", '; filename="a') + END,
    ],
)
def test_what_is_no_form_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as rejected:
        read(body)
    assert rejected.value.code == "invalid_multipart"


def test_blanks_may_follow_a_boundary() -> None:
    body = (part("a", b"x") + part("b", b"y")).replace(BOUNDARY, BOUNDARY + b" \t")
    assert read(body + END) == [("a", b"x"), ("b", b"y")]


def test_a_file_that_is_itself_multipart_is_read_as_it_is() -> None:
    """Browsers send a saved web page so."""
    page = b"Content-Type: multipart/related; boundary=q\r\n\r\n--q\r\n\r\nhello\r\n--q--\r\n"
    body = part("file", page, '; filename="page.mht"').replace(b"text/plain", b"multipart/related; boundary=q")
    assert read(body + END) == [("file", page)]


@pytest.mark.parametrize(
    ("written", "filename"),
    [
        ('"a.txt"', "a.txt"),
        ("a.txt", "a.txt"),
        ('"a;b=c.txt"', "a;b=c.txt"),
        ('"a%22b%0D%0a.txt"', 'a"b\r\n.txt'),
        (r'"a\"b\\c.txt"', 'a"b\\c.txt'),
        (r'"C:\dir\a.txt"', r"C:\dir\a.txt"),
        ('"a\\"', "a\\"),
        ('"100%25 größe.txt"', "100%25 größe.txt"),
        ("\"old.txt\"; filename*=UTF-8''%e2%82%ac%20new.txt", "€ new.txt"),
        ("\"old.txt\"; filename*=KOI8-R''%ff", "old.txt"),
        ('""', ""),
        ('"a.txt" ; x; ;=y;', "a.txt"),
        ('"a.txt"; filename="b.txt"', "a.txt"),
        ('"a"b.txt"', 'a"b.txt'),
    ],
)
def test_the_name_of_a_file_is_read_as_clients_write_it(written: str, filename: str) -> None:
    head = f'\r\nContent-Disposition: form-data; name="file"; filename={written}\r\n\r\n'
    assert headers_to_start(head.encode()).filename == filename


@pytest.mark.parametrize("unit", [';a="\\', ';a="', ';a="x";', ";a=", ";a \t", ';a="x" y'])
@pytest.mark.parametrize("last", ["", '"'])
def test_the_time_to_read_headers_grows_with_their_length_alone(unit: str, last: str) -> None:
    head = ('Content-Disposition: form-data; name="x"' + unit * (40 * MOST_HEADERS // len(unit)) + last).encode()
    # If it grew with the square of the length, this would not end.
    with contextlib.suppress(InvalidRequest):
        headers_to_start(head)


def test_a_field_has_no_filename_and_the_names_of_headers_may_be_in_any_case() -> None:
    assert headers_to_start(b"\r\ncontent-disposition:Form-Data;name=a\r\n\r\n") == PartStart("a", None, None)
