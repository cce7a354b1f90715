"""Links to the files of a container: the annotation is exact, however the text is split."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from support.operations import assert_linear, count_calls

from antiphon.core.events.deltas import CitedDelta, TextDelta
from antiphon.core.stream.citations import CitedText, Sources
from antiphon.core.stream.file_links import CodeFile

NAMES = ["plot.png", "plot.png.bak", "a b (1).csv", "sub/deep.txt", "ä.txt", "plot"]
# With what may follow them, and what looks like them.
PARTS = [
    *(f"sandbox:/mnt/data/{name}" for name in NAMES),
    "sandbox:/mnt/data/a%20b%20%281%29.csv",
    "sandbox:/mnt/data/other.png",
    *("sandbox:", "sandbox:/mnt/data/", "/mnt/data/plot.png", "[the plot](", ")", ".", ". ", "s", "x", " ", "[1]", "\n", "`"),
]


def sources() -> Sources:
    made = Sources()
    files = [CodeFile(f"cfile_{at}", name) for at, name in enumerate(NAMES)]
    made.add_files("cntr_1", files)
    return made


def read(pieces: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """The text, and each citation: the file's name and the text of its span."""
    reader, text, cited = CitedText(None, sources()), "", []
    for delta in [each for piece in pieces for each in reader.receive(piece)] + reader.close():
        assert isinstance(delta, TextDelta)
        start, text = len(text), text + delta.text
        if isinstance(delta, CitedDelta):
            annotation = delta.citation.annotation(start, len(text))
            cited.append((annotation["filename"], text[annotation["start_index"] : annotation["end_index"]]))
    return text, cited


def cited(text: str) -> list[str]:
    return [name for name, _ in read([text])[1]]


def test_the_target_of_a_link_is_cited() -> None:
    text = "See [it](sandbox:/mnt/data/plot.png), and sandbox:/mnt/data/sub/deep.txt."
    expected = [("plot.png", "sandbox:/mnt/data/plot.png"), ("deep.txt", "sandbox:/mnt/data/sub/deep.txt")]
    assert read([text]) == (text, expected)


def test_a_longer_name_is_not_taken_for_a_shorter_one() -> None:
    assert cited("sandbox:/mnt/data/plot.png.bak") == ["plot.png.bak"]
    assert cited("sandbox:/mnt/data/plot.png.old") == []
    assert cited("sandbox:/mnt/data/plot.pngs") == []
    assert cited("sandbox:/mnt/data/plot.png.") == ["plot.png"]
    assert cited("sandbox:/mnt/data/plot") == ["plot"]


def test_names_with_spaces_are_found_as_they_are_and_escaped() -> None:
    assert cited("[t](sandbox:/mnt/data/a b (1).csv)") == ["a b (1).csv"]
    assert cited("[t](sandbox:/mnt/data/a%20b%20%281%29.csv)") == ["a b (1).csv"]


def test_a_file_that_is_not_there_is_not_cited() -> None:
    assert cited("[t](sandbox:/mnt/data/other.png) and /mnt/data/plot.png") == []


def test_many_files_with_long_names_do_not_stop_an_answer() -> None:
    def work_of(count: int) -> Callable[[], None]:
        names = [f"{'é' * 120}{at}" for at in range(5 * count)] + [f"{'é' * 100}/" * 15 + str(at) for at in range(count)]
        many = Sources()
        many.add_files("cntr_1", [CodeFile(f"cfile_{at}", name) for at, name in enumerate(names)])

        def work() -> None:
            reader = CitedText(None, many)
            deltas = reader.receive(f"See [it](sandbox:/mnt/data/{names[7]}).") + reader.close()
            cited = [delta.citation for delta in deltas if isinstance(delta, CitedDelta)]
            assert [citation.annotation(0, 0)["file_id"] for citation in cited] == ["cfile_7"]

        return work

    assert_linear(work_of, 200, count_calls)


def test_a_path_that_is_longer_than_names_are_is_not_cited() -> None:
    long = Sources()
    long.add_files("cntr_1", [CodeFile("cfile_1", "a" * 256), CodeFile("cfile_2", "b" * 255)])
    reader = CitedText(None, long)
    deltas = reader.receive(f"sandbox:/mnt/data/{'a' * 256} sandbox:/mnt/data/{'b' * 255}") + reader.close()
    assert [delta.citation.annotation(0, 0)["file_id"] for delta in deltas if isinstance(delta, CitedDelta)] == ["cfile_2"]


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join), st.data())
def test_the_split_of_a_stream_changes_nothing(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, found = read([text])
    assert read(pieces) == (whole, found) == (text, found)
    assert read(list(text)) == (text, found)
