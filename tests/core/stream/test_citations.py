"""The model cites a source by its number: the client sees a link, and an annotation that points at it."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_output_text import AnnotationFileCitation, AnnotationURLCitation
from support.engine import answer, call, chunk, text
from support.exchanges import Event, checked, make_environment, run_answers
from support.operations import CopiedText, assert_linear, count_calls, count_copied
from support.streams import SDK_EVENT
from support.sync_runs import run_exchange
from support.toy_tool import DICE, Dice

from antiphon.core.events.deltas import CallDelta, CitedDelta, TextDelta
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, ToolCall
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.stream.chat_stream import ChatStream
from antiphon.core.stream.citation_marks import CitationMarks
from antiphon.core.stream.citations import LONGEST_URL, CitedText, FileSource, Source, Sources, without_marks
from antiphon.core.stream.text_calls import TextCalls
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire.responses import CreateResponse

SEINE = Source(0, "https://www.seine.fr/paris", "The Seine")
RHINE = Source(0, "http://rhine.example:8080/basel?a=1", "The Rhine")
SCRIPT = Source(0, "javascript:alert(1)", "Not a page")
NOTES = FileSource(0, "file-1", "notes.txt")
OTHER = FileSource(0, "file-2", "other.txt")
A = "([seine.fr](https://www.seine.fr/paris))"
B = "([rhine.example](http://rhine.example:8080/basel?a=1))"


def make_sources(*sources: Source | FileSource) -> Sources:
    """1: the Seine. 2: the Rhine. 3: what cannot be linked. 4 and 5: files."""
    made = Sources()
    made.add(sources or (SEINE, RHINE, SCRIPT, NOTES, OTHER))
    return made


def shown(pieces: Iterable[str], sources: Sources | None = None) -> tuple[str, list[dict[str, Any]]]:
    """The text that is shown, and its annotations."""
    marks = CitationMarks(sources or make_sources())
    deltas = [delta for piece in pieces for delta in marks.feed(piece)] + marks.finish()
    whole, annotations = "", []
    for delta in deltas:
        start, whole = len(whole), whole + delta.text
        if isinstance(delta, CitedDelta):
            annotations.append(delta.citation.annotation(start, len(whole)))
    return whole, annotations


# ---- what is a mark ----------------------------------------------------------------------------------------------------

MARKS = {
    "Paris [1].": f"Paris {A}.",
    "Paris.[1]": f"Paris. {A}",
    "[1] says so": f"{A} says so",
    "Paris\n[1]": f"Paris\n{A}",
    "([1])": f"({A})",
    "Paris ([1], [2]).": f"Paris ({A}, {B}).",
    "Paris ([1][9]).": f"Paris ({A}[9]).",
    "“Paris”[1]": f"“Paris” {A}",
    "**Paris**[2]!": f"**Paris** {B}!",
    "Paris [1, 2].": f"Paris {A} {B}.",
    "Paris [1,2].": f"Paris {A} {B}.",
    "Paris [1, 1].": f"Paris {A}.",
    "Paris [1][2].": f"Paris {A} {B}.",
    "Paris [1] [2].": f"Paris {A} {B}.",
    "Paris[^1].": f"Paris {A}.",
    "Paris[^1][^2].": f"Paris {A} {B}.",
    "Paris【1】.": f"Paris {A}.",
    "Paris【1†source】.": f"Paris {A}.",
    "Paris 【2†L5-L12】【1】": f"Paris {B} {A}",
    "巴黎[1]。": f"巴黎 {A}。",
    "巴黎【1】。": f"巴黎 {A}。",
    "It is so: [1]: see there": f"It is so: {A}: see there",
    "[1][9]": f"{A}[9]",
    "`code` [1]": f"`code` {A}",
    "```\ncode\n```\n[1]": f"```\ncode\n```\n{A}",
    "a[0] and [1]": f"a[0] and {A}",
    "[1](https://x.example) and [1]": f"[1](https://x.example) and {A}",
    # Right behind a word.
    "Paris[1].": f"Paris {A}.",
    "Paris[1]": f"Paris {A}",
    "Paris[1] is": f"Paris {A} is",
    "in the city[1], too": f"in the city {A}, too",
    "the USA[1][2].": f"the USA {A} {B}.",
    "(Paris[1])": f"(Paris {A})",
    "a well-known fact[1, 2];": f"a well-known fact {A} {B};",
    "São Paulo[1]\n": f"São Paulo {A}\n",
    "~~~\ncode\n~~~\n[1]": f"~~~\ncode\n~~~\n{A}",
    "~~gone~~ [1]": f"~~gone~~ {A}",
    "~~~\n`\n~~~~\nParis [1]": f"~~~\n`\n~~~~\nParis {A}",
}
NO_MARKS = [
    "Paris",
    "",
    "[",
    "[1",
    "[1, ",
    "[^",
    "【1†so",
    "[0]",
    "[9]",
    "[99999]",
    "[1, 9]",
    "[1-2]",
    "[a]",
    "[ 1 ]",
    "【9】",
    "【1†a\nb】",
    "[3]",
    "`[1]`",
    "``a ` [1]``",
    "`[1]",
    "```\n[1]\n```",
    "```python\nx = [1]\n",
    "   ```\n[1][2]【1】[^1]\n   ```",
    "[1](https://x.example)",
    "![1](https://x.example/a.png)",
    "[^1]: The footnote.",
    "words\n[^1]: The footnote.",
    "[1]: https://x.example",
    "  [1]: https://x.example",
    "a[1]",
    "xs[1]",
    "row[1]",
    "x2[1]",
    "items[1].",
    "Items[1].",
    "myRows[1].",
    "self.rows[1].",
    "o.city[1].",
    "$city[1]",
    "city_[1]",
    "city[1]=2",
    "city[1]x",
    "city[1]+1",
    "Paris[9]",
    "Paris[1](https://x.example)",
    "`Paris[1]`",
    "a" * 50 + "[1]",
    "~~~\n[1]\n~~~",
    "~~~\nParis[1]\n~~",
    "~~~~\n[1]\n~~~\n[1]",
    "~~~ python\n```\n[1]",
    "```\n~~~\n[1]\n```",
    "items_[1]",
    "f(x)[1]",
    "a[0][1]",
    "a[1][2]",
    r"\[1]",
]


@pytest.mark.parametrize(("written", "expected"), MARKS.items(), ids=MARKS)
def test_a_mark_becomes_a_link(written: str, expected: str) -> None:
    whole, annotations = shown([written])
    assert whole == expected
    assert all(whole[each["start_index"] : each["end_index"]] in (A, B) for each in annotations)
    assert len(annotations) == expected.count(A) + expected.count(B)
    assert_same_in_every_split(written)


@pytest.mark.parametrize("written", NO_MARKS)
def test_anything_else_stays_as_it_is(written: str) -> None:
    assert shown([written]) == (written, [])
    assert_same_in_every_split(written)


def assert_same_in_every_split(written: str) -> None:
    whole = shown([written])
    assert shown(written) == whole, "character by character"
    for at in range(len(written)):
        assert shown([written[:at], "", written[at:]]) == whole, f"split at {at}"


PIECES = [
    "[",
    "]",
    "1",
    "2",
    "9",
    ", ",
    ",",
    "^",
    "【",
    "】",
    "†",
    "(",
    ")",
    ":",
    "`",
    "```",
    "~~~",
    "Paris",
    "[4]",
    "\n",
    " ",
    "a",
    "é",
    "。",
    "[1]",
    "😀",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.data())
def test_any_split_of_any_text_gives_the_same(pieces: list[str], data: st.DataObject) -> None:
    written = "".join(pieces)
    whole = shown([written])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    split = [written[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    assert shown(pieces) == shown(split) == whole
    text, annotations = whole
    for each in annotations:
        if each["type"] == "file_citation":
            assert 0 <= each["index"] <= len(text)
        else:
            assert text[each["start_index"] : each["end_index"]] in (A, B)


# ---- what is buffered --------------------------------------------------------------------------------------------------


def buffered(written: str) -> str:
    """The end of the text that is not passed on yet."""
    passed = "".join(delta.text for delta in CitationMarks(make_sources()).feed(written))
    assert written.startswith(passed)
    return written[len(passed) :]


@pytest.mark.parametrize(
    ("written", "waits"),
    {
        "Paris": "",
        "Paris ": " ",
        "Paris [": " [",
        "Paris [1": " [1",
        "Paris [1, ": " [1, ",
        "Paris [1]": " [1]",
        "Paris (": " (",
        "Paris ([1], [": " ([1], [",
        "Paris (a": "",
        "Paris ([9] a": "",
        "`Paris (": "",
        "Paris[": "[",
        "Paris[^": "[^",
        "Paris【1†sour": "【1†sour",
        # None of these can become a mark.
        "Paris [a": "",
        "Paris[1": "[1",
        "rows[1": "",
        "Paris [1 ": " ",
        "Paris [9]": "",
        "Paris [12345": "",
        "`Paris [": "",
        "```\nParis [1]": "",
        "a[1]": "",
    }.items(),
)
def test_only_what_may_become_a_mark_is_buffered(written: str, waits: str) -> None:
    assert buffered(written) == waits


@pytest.mark.parametrize("piece", ["[", "(", "([9]", "([9], ", "【1†", "【1†" + "a" * 500, "[1,", "[" + "1, " * 100, " "])
def test_little_is_buffered_whatever_comes(piece: str) -> None:
    marks, passed = CitationMarks(make_sources()), 0
    for count in range(1, 200):
        passed += sum(len(delta.text) for delta in marks.feed(piece))
        assert count * len(piece) - passed <= 120


TEXTS = [
    "(",
    "([1]",
    "([1], [4]) ",
    " ([4])",
    "word ",
    "a[1] ",
    " [1]",
    "[1][2]",
    "[1, 2], ",
    "[",
    "【",
    "【1†x ",
    "`[1]` ",
    "```\n[1]\n",
    "[^1]: x\n",
    "[1](u) ",
]


@pytest.mark.parametrize("piece", TEXTS)
def test_the_work_grows_with_the_length_of_the_text(piece: str) -> None:
    def in_pieces(size: int) -> Callable[[], object]:
        return lambda: shown_length([piece] * size)

    def at_once(size: int) -> Callable[[], object]:
        return lambda: shown_length([piece * size])

    assert_linear(in_pieces, 500, count_calls)
    assert_linear(at_once, 500, count_calls)
    # What is buffered is not copied for every piece.
    assert_linear(lambda size: lambda: shown_length([CopiedText(piece)] * size), 1000, count_copied)


def shown_length(pieces: Iterable[str]) -> int:
    marks = CitationMarks(make_sources())
    return sum(len(delta.text) for piece in pieces for delta in marks.feed(piece))


# ---- sources -----------------------------------------------------------------------------------------------------------


def test_numbers_run_on() -> None:
    sources = Sources()
    assert not sources
    assert (sources.next_number, sources.add([SEINE, RHINE]), sources.add([SEINE]), sources.next_number) == (1, 1, 3, 4)
    assert [sources.get(number) for number in range(5)] == [
        None,
        Source(1, SEINE.url, SEINE.title),
        Source(2, RHINE.url, RHINE.title),
        Source(3, SEINE.url, SEINE.title),
        None,
    ]


LINKS = {
    "https://a.example/b_(c)": "([a.example](https://a.example/b_%28c%29))",
    "https://a.example/b c\nd": "([a.example](https://a.example/b%20c%0Ad))",
    "https://a.example/`<b>`|[c]\\": "([a.example](https://a.example/%60%3Cb%3E%60%7C%5Bc%5D%5C))",
    "https://a.example/%20?q=%28&r=ä": "([a.example](https://a.example/%20?q=%28&r=ä))",
    "HTTPS://User:pw@WWW.A.example:443/": "([a.example](HTTPS://User:pw@WWW.A.example:443/))",
    "http://[::1]/a": "([::1](http://%5B::1%5D/a))",
    "http://a*b.example": "([a\\*b.example](http://a*b.example))",
}


@pytest.mark.parametrize(("url", "link"), LINKS.items())
def test_a_link_is_one_in_markdown_whatever_its_url_contains(url: str, link: str) -> None:
    whole, annotations = shown(["[1]"], make_sources(Source(0, url, "T")))
    assert whole == link
    assert annotations == [{"type": "url_citation", "start_index": 0, "end_index": len(link), "url": url, "title": "T"}]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://",
        "http://[",
        "https://a.example/" + "a" * LONGEST_URL,
    ],
)
def test_what_is_no_address_of_a_page_is_not_linked(url: str) -> None:
    assert shown(["See [1]."], make_sources(Source(0, url))) == ("See [1].", [])


@pytest.mark.parametrize("written", ["Paris [4].", "Paris[^4].", "Paris【4†notes】."])
def test_the_mark_of_a_file_is_cut_out(written: str) -> None:
    for pieces in ([written], list(written)):
        citation = {"type": "file_citation", "index": 5, "file_id": "file-1", "filename": "notes.txt"}
        assert shown(pieces) == ("Paris.", [citation])


CUT_OUT = {
    "Paris [4] is old.": ("Paris is old.", [5]),
    "Paris [4][4].": ("Paris.", [5]),
    "Paris [4] [4].": ("Paris.", [5]),
    "Paris [4][5].": ("Paris.", [5, 5]),
    "Paris [4, 5].": ("Paris.", [5, 5]),
    "Paris [4] is old [4].": ("Paris is old.", [5, 12]),
    "Paris ([4]).": ("Paris.", [5]),
    "Paris (【4】).": ("Paris.", [5]),
    "Paris ([4, 5]).": ("Paris.", [5, 5]),
    "Paris ([4], [5]).": ("Paris.", [5, 5]),
    "Paris ([4]; [^5]) is": ("Paris is", [5, 5]),
    "Paris ([4][5]": ("Paris (", [7, 7]),
    "Paris ([4], [9]).": ("Paris (, [9]).", [7]),
    "Paris (【4†L5-L9】).": ("Paris.", [5]),
    "`Paris ([4])`": ("`Paris ([4])`", []),
    "([4]) Paris": ("Paris", [0]),
    "Paris ([4] and more)": ("Paris ( and more)", [7]),
    "Paris (see [4]).": ("Paris (see).", [10]),
    "Paris ([4": ("Paris ([4", []),
    "f([4])": ("f()", [2]),
    "Paris [4, 4].": ("Paris.", [5]),
    "Paris[4].": ("Paris.", [5]),
    "Paris. [4]\nRome.": ("Paris.\nRome.", [6]),
    "[4] Paris.": ("Paris.", [0]),
    "Sources:\n[4] notes.txt\n[4] notes.txt": ("Sources:\nnotes.txt\nnotes.txt", [9, 19]),
    "Paris  [4] is": ("Paris  is", [6]),
    "a [4]": ("a", [1]),
    "rows[4]": ("rows[4]", []),
    "Paris [6].": ("Paris [6].", []),
    "`[4]` [4]": ("`[4]`", [5]),
}


@pytest.mark.parametrize(("written", "expected"), CUT_OUT.items(), ids=CUT_OUT)
def test_the_space_before_the_mark_of_a_file_goes_with_it(written: str, expected: tuple[str, list[int]]) -> None:
    for pieces in ([written], list(written), [written[:7], written[7:]]):
        whole, annotations = shown(pieces)
        assert (whole, [each["index"] for each in annotations]) == expected


IN_TEXT = ["Paris", " [4]", "[4]", " ", ".", "\n", "`", "a", "[9]", "é", "😀", "【4】", "(", ")"]


@given(st.lists(st.sampled_from(IN_TEXT), max_size=30), st.data())
def test_the_place_of_a_file_is_exact_however_the_text_is_split(pieces: list[str], data: st.DataObject) -> None:
    written = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    split = [written[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    text, annotations = shown([written])
    assert shown(split) == (text, annotations)
    assert [each["index"] for each in annotations] == sorted(each["index"] for each in annotations)
    # Nothing is lost but marks, and spaces and brackets around them.
    assert len(annotations) <= written.count("[4]") + written.count("【4】")
    assert all(written.count(each) == text.count(each) for each in ("Paris", "[9]", "😀"))
    bare = re.compile(r"\[4\]|【4】|[ ()]")
    assert bare.sub("", text) == bare.sub("", written)


def test_footnotes_of_a_document_are_left_out_and_code_is_not() -> None:
    document = "Rome is old [12]. So is Paris[3].\n```\nx = rows[1] + [2]\n```\nSee `a[1]` and rows[1]."
    assert without_marks(document) == "Rome is old. So is Paris.\n```\nx = rows[1] + [2]\n```\nSee `a[1]` and rows[1]."


# ---- in text with calls ------------------------------------------------------------------------------------------------


def test_a_mark_before_a_call_in_the_text_is_one() -> None:
    finder = CitedText(TextCalls(["f"]), make_sources())
    deltas = finder.receive('Paris [1]\n<tool_call>{"name": "f", "arguments": {}}</tool_call>') + finder.close()
    cited = [delta for delta in deltas if isinstance(delta, CitedDelta)]
    assert [delta.text for delta in cited] == [A]
    calls = [at for at, delta in enumerate(deltas) if isinstance(delta, CallDelta)]
    assert calls
    assert min(calls) > deltas.index(cited[0])


def test_half_a_mark_is_text_where_something_else_begins() -> None:
    finder = CitedText(None, make_sources())
    assert finder.receive("Paris [1") == [TextDelta("Paris")]
    assert finder.release() == [TextDelta(" [1")]
    assert finder.receive("]") == [TextDelta("]")]


# ---- in a response -----------------------------------------------------------------------------------------------------

ROLL = answer(call("roll", '{"sides": 6}'), finish="tool_calls")


def by_chunk(given: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in given.split(b"\n\n") if frame]


def run(
    *answers: bytes,
    add_sources: bool = True,
    split: Callable[[bytes], list[bytes]] = by_chunk,
    files: Iterable[FileSource] = (),
    **request: Any,
) -> list[Event]:
    """The events of a response whose first answer calls a tool that finds the sources, every invariant checked."""
    fields = {"model": "m", "input": "Hi", "stream": True, "store": False, "tools": [DICE], **request}
    environment = make_environment(tools={"dice": Dice()})
    exchange = Exchange(msgspec.convert(fields, CreateResponse), [EngineKnowledge(PLAIN)], environment, response_id="resp_1")
    script = iter([ROLL, *answers])

    def ask(step: Ask) -> list[bytes]:
        return split(next(script))

    def run_tool(call: ToolCall) -> ToolResult:
        if add_sources:
            exchange.sources.add([SEINE, RHINE, SCRIPT, NOTES, *files])
        return ToolResult("found")

    return checked(run_exchange(exchange, ask, run_tool), for_sdk=False)


def of_message(events: list[Event]) -> list[Event]:
    """Those of the content of the last message."""
    last = max(event["output_index"] for event in events if "output_index" in event)
    return [event for event in events if event.get("output_index") == last and "content_index" in event]


def output_text(events: list[Event]) -> dict[str, Any]:
    part: dict[str, Any] = events[-1]["response"]["output"][-1]["content"][0]
    return part


WRITTEN = "\n\nParis 🗼 liegt an der Seine [1], 巴塞尔【2】。 `[1]`"
EXPECTED = f"Paris 🗼 liegt an der Seine {A}, 巴塞尔 {B}。 `[1]`"


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(WRITTEN)])
def test_an_annotation_follows_the_delta_that_it_is_about(size: int) -> None:
    events = run(text(*(WRITTEN[at : at + size] for at in range(0, len(WRITTEN), size))))
    so_far = ""
    annotations: list[dict[str, Any]] = []
    for event in of_message(events):
        if event["type"] == "response.output_text.delta":
            so_far += event["delta"]
        elif event["type"] == "response.output_text.annotation.added":
            assert event["annotation_index"] == len(annotations)
            assert event["annotation"]["end_index"] == len(so_far), "nothing comes between the link and its annotation"
            annotations.append(event["annotation"])
    assert so_far == EXPECTED
    assert [(each["url"], each["title"]) for each in annotations] == [(SEINE.url, SEINE.title), (RHINE.url, RHINE.title)]
    assert [EXPECTED[each["start_index"] : each["end_index"]] for each in annotations] == [A, B]
    done = next(event for event in of_message(events) if event["type"] == "response.content_part.done")
    assert done["part"]["annotations"] == annotations
    item = next(event["item"] for event in reversed(events) if event["type"] == "response.output_item.done")
    assert item["content"] == [done["part"]] == [output_text(events)]
    text_done = next(event for event in events if event["type"] == "response.output_text.done")
    assert "annotations" not in text_done
    assert text_done["text"] == EXPECTED


OF_FILES = "Paris 🗼 liegt an der Seine [4], 巴塞尔【5】。 Das ist so ([4][5])."


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(OF_FILES)])
def test_the_annotation_of_a_file_comes_where_its_mark_was(size: int) -> None:
    events = run(text(*(OF_FILES[at : at + size] for at in range(0, len(OF_FILES), size))), files=[OTHER])
    so_far = ""
    annotations: list[dict[str, Any]] = []
    for event in of_message(events):
        if event["type"] == "response.output_text.delta":
            so_far += event["delta"]
        elif event["type"] == "response.output_text.annotation.added":
            assert event["annotation"]["index"] == len(so_far), "all text before the mark has come, and nothing more"
            annotations.append(event["annotation"])
    assert so_far == "Paris 🗼 liegt an der Seine, 巴塞尔。 Das ist so."
    found = [(each["file_id"], so_far[each["index"] :][:1]) for each in annotations]
    assert found == [("file-1", ","), ("file-2", "。"), ("file-1", "."), ("file-2", ".")]
    assert output_text(events)["annotations"] == annotations


@given(st.lists(st.integers(0, 3000), max_size=12))
def test_however_the_bytes_are_split_the_events_are_the_same(cuts: list[int]) -> None:
    def split(given: bytes) -> list[bytes]:
        ends = sorted({*(min(cut, len(given)) for cut in cuts), len(given)})
        return [given[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    answered = text(*(WRITTEN[at : at + 3] for at in range(0, len(WRITTEN), 3)))
    assert run(answered, split=split) == run(answered)


def test_an_answer_may_begin_with_a_citation() -> None:
    part = output_text(run(text("[1]", " and [2]")))
    assert part["text"] == f"{A} and {B}"
    assert [each["start_index"] for each in part["annotations"]] == [0, len(A) + 5]


def test_places_are_counted_anew_in_the_next_message() -> None:
    """A thought ends the message before it."""
    events = run(
        answer(chunk({"content": "Paris [1]."}), chunk({"reasoning_content": "Hm."}), chunk({"content": "Basel [2]."}))
    )
    parts = [item["content"][0] for item in events[-1]["response"]["output"] if item["type"] == "message"]
    assert [part["text"] for part in parts] == [f"Paris {A}.", f"Basel {B}."]
    assert [part["annotations"][0]["start_index"] for part in parts] == [6, 6]


def test_the_message_of_an_answer_that_calls_again_is_cited_too() -> None:
    again = answer(chunk({"content": "Paris [1]"}), call("roll", '{"sides": 6}', id="b"), finish="tool_calls")
    events = run(again, text("Basel [2] [5]"))
    parts = [item["content"][0] for item in events[-1]["response"]["output"] if item["type"] == "message"]
    assert [part["text"] for part in parts] == [f"Paris {A}", f"Basel {B} {A}"]


def test_what_is_cited_while_an_item_before_it_is_open_is_cited_when_it_is_shown() -> None:
    """Text that follows a call waits until the call has its result."""
    again = answer(call("roll", '{"sides": 6}', id="b"), chunk({"content": "Paris [1]."}), finish="tool_calls")
    events = run(again, text("Done."))
    message = next(item for item in events[-1]["response"]["output"] if item["type"] == "message")
    part = message["content"][0]
    assert part["text"] == f"Paris {A}."
    assert [(each["start_index"], each["end_index"]) for each in part["annotations"]] == [(6, 6 + len(A))]


def test_a_file_is_cited_without_a_delta_of_its_own() -> None:
    events = run(text("Paris", " [4]", "."))
    deltas = [event["delta"] for event in of_message(events) if event["type"] == "response.output_text.delta"]
    assert deltas == ["Paris", "."]
    citation = {"type": "file_citation", "index": 5, "file_id": "file-1", "filename": "notes.txt"}
    assert output_text(events)["annotations"] == [citation]


def test_clients_know_these_events() -> None:
    """By the types of the openai SDK, which has a class for each kind of annotation."""
    events = run(text("Paris [1] [4]."))
    kinds = set()
    for event in of_message(events):
        known = SDK_EVENT.validate_python(event, strict=False)
        assert known.to_dict() == event
        if event["type"] == "response.content_part.done":
            kinds = {type(annotation) for annotation in known.part.annotations}
    assert kinds == {AnnotationURLCitation, AnnotationFileCitation}


@pytest.mark.parametrize(
    "format",
    [{"type": "json_object"}, {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": True}],
    ids=["any object", "schema"],
)
def test_structured_output_has_no_marks(format: dict[str, Any]) -> None:
    written = '{"a": [1], "b": "Paris [1]"}'
    assert output_text(run(text(*written), text={"format": format})) == {
        "type": "output_text",
        "text": written,
        "annotations": [],
        "logprobs": [],
    }


def test_without_sources_no_text_is_searched() -> None:
    assert output_text(run(text("Paris [1]."), add_sources=False))["text"] == "Paris [1]."
    exchange = Exchange(CreateResponse(model="m", input="Hi"), [EngineKnowledge(PLAIN)], make_environment())
    assert isinstance(stream := exchange.answer._stream, ChatStream)
    assert stream._reader._finder is None
    assert run_answers({}, text("Paris [1]."))[-1]["response"]["output"][0]["content"][0]["text"] == "Paris [1]."


def test_tokens_keep_their_probabilities() -> None:
    def token(piece: str) -> bytes:
        given = [{"token": piece, "logprob": -1.0, "bytes": None, "top_logprobs": []}]
        choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None, "logprobs": {"content": given}}
        return b"data: " + msgspec.json.encode({"object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"

    tokens = ["Paris", " [", "1", "]", " or", " [", "a", "【2】"]
    events = run(answer(*map(token, tokens)), include=["message.output_text.logprobs"])
    deltas = [event for event in of_message(events) if event["type"] == "response.output_text.delta"]
    assert "".join(delta["delta"] for delta in deltas) == f"Paris {A} or [a {B}"
    assert [each["url"] for each in output_text(events)["annotations"]] == [SEINE.url, RHINE.url]
    assert [logprob["token"] for delta in deltas for logprob in delta["logprobs"]] == tokens
    assert [logprob["token"] for logprob in output_text(events)["logprobs"]] == tokens


def test_deltas_are_padded_where_that_is_asked_for() -> None:
    events = run(text("Paris [1]."), stream_options={"include_obfuscation": True})
    deltas = [event for event in of_message(events) if event["type"] == "response.output_text.delta"]
    assert [delta["delta"] for delta in deltas] == ["Paris ", A, "."]
    assert all(delta["obfuscation"] for delta in deltas)


def test_the_history_has_the_message_as_the_client_has_it() -> None:
    item = run(text("Paris [1]."))[-1]["response"]["output"][-1]
    sent: list[Any] = []
    run_answers(
        {"input": [{"role": "user", "content": "Hi"}, item, {"role": "user", "content": "More"}]},
        text("Yes."),
        on_ask=lambda step: sent.append(msgspec.to_builtins(step.chat)),
    )
    assert sent[0]["messages"][1] == {"role": "assistant", "content": f"Paris {A}."}
