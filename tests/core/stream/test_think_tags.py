"""Tagged reasoning: found at any split, never twice, never inside the text, and never where tags are only quoted."""

import itertools
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.core.events.deltas import Delta, Finished, ReasoningDelta, TextDelta, ThoughtEnded
from antiphon.core.stream.chat_chunks import ChunkReader
from antiphon.core.stream.reasoning_tags import PAIRS, TAGS, ReasoningTags, Start, TagPair, partial_tag_length
from antiphon.core.stream.think_tags import ThinkTags

OPEN, CLOSE = PAIRS[0]


def merge(deltas: list[Delta]) -> tuple[str, str]:
    """(reasoning, text)"""
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return reasoning, "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def read(pieces: list[str], start: Start = Start.UNKNOWN, *, cut: bool = False, table: ReasoningTags = TAGS) -> list[Delta]:
    tags = ThinkTags(start, table)
    return [delta for piece in pieces for delta in tags.receive(piece)] + tags.close(cut=cut)


CASES = {
    "no thought": ("Paris.", "", "Paris."),
    "a thought": ("<think>hm</think>Paris.", "hm", "Paris."),
    "white space around it": ("\n <think>\nhm\n</think>\n\nParis.", "\nhm\n", "\n\nParis."),
    "an empty thought": ("<think></think>Paris.", "", "Paris."),
    "two thoughts in a row": ("<think>a</think><think>b</think>c", "ab", "c"),
    "never closed": ("<think>hm", "hm", ""),
    "a closing tag in quotation marks": ('Write "</think>" at the end.', "", 'Write "</think>" at the end.'),
    "a closing tag in single quotation marks": ("Write '</think>' at the end.", "", "Write '</think>' at the end."),
    "tags that are quoted": ("Use <think> and </x> or `</think>`.", "", "Use <think> and </x> or `</think>`."),
    "a tag after the text has begun": ("<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"),
    "almost a tag": ("<thin", "", "<thin"),
    "angle brackets": ("<<think>x", "", "<<think>x"),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_whole_and_in_single_characters(name: str) -> None:
    raw, reasoning, text = CASES[name]
    for pieces in ([raw], list(raw)):
        found = merge(read(pieces))
        assert found[0] == reasoning
        assert found[1].strip() == text.strip()


@given(st.text(alphabet="<>/think ab\n`", max_size=40), st.lists(st.integers(0, 40)))
def test_any_split_gives_the_same_reasoning_and_text_once_the_thought_is_open(tail: str, cuts: list[int]) -> None:
    raw = "<think>" + tail
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    assert merge(read(pieces)) == merge(read([raw]))


@given(st.lists(st.text(alphabet="<>/think x", max_size=9), max_size=20))
def test_fewer_than_eight_characters_are_buffered(pieces: list[str]) -> None:
    tags = ThinkTags()
    given_out = fed = 0
    for piece in pieces:
        fed += len(piece)
        deltas = tags.receive(piece)
        given_out += sum(len(delta.text) for delta in deltas if isinstance(delta, ReasoningDelta | TextDelta))
        tags_seen = sum(len(tag) * "".join(pieces).count(tag) for tag in ("<think>", CLOSE))
        assert fed - given_out - tags_seen < 8


def test_a_close_that_nothing_opened_makes_a_thought_of_what_was_not_shown_yet() -> None:
    deltas = read(["I should look.\n</think>\n\n", "Paris."])
    assert merge(deltas) == ("I should look.\n", "\n\nParis.")
    assert any(isinstance(delta, ThoughtEnded) for delta in deltas)


def test_a_close_that_comes_after_text_was_shown_ends_that_text_and_is_not_shown() -> None:
    deltas = read(["I should ", "look.</think>", "Paris."])
    assert deltas == [TextDelta("I should "), TextDelta("look."), ThoughtEnded(), TextDelta("Paris.")]


def test_with_a_patient_start_an_unopened_thought_is_always_found() -> None:
    assert merge(read(list("I should look.</think>Paris."), Start.PATIENT)) == ("I should look.", "Paris.")
    assert merge(read(list("Just text."), Start.PATIENT)) == ("", "Just text.")


def test_a_stream_that_is_known_to_start_inside_a_thought_does() -> None:
    tags = ThinkTags(Start.INSIDE)
    deltas = [delta for piece in ("I should ", "look.", "</th", "ink>", "Paris.") for delta in tags.receive(piece)]
    assert merge(deltas) == ("I should look.", "Paris.")
    assert tags.unopened


def test_an_answer_that_was_wrongly_taken_for_a_thought_is_not_lost() -> None:
    assert merge(read(["Paris."], Start.INSIDE)) == ("Paris.", "Paris.")


def test_an_answer_that_was_wrongly_taken_for_a_thought_comes_once_where_no_client_waits() -> None:
    assert merge(read(["Par", "is."], Start.INSIDE_PATIENT)) == ("", "Paris.")


def test_a_thought_that_the_template_opened_is_found_where_no_client_waits() -> None:
    tags = ThinkTags(Start.INSIDE_PATIENT)
    deltas = [delta for piece in ("I should ", "look.", "</th", "ink>", "Paris.") for delta in tags.receive(piece)]
    assert deltas == [ReasoningDelta("I should look."), TextDelta("Paris.")]
    assert tags.unopened
    assert merge(read(["Let me ", "th"], Start.INSIDE_PATIENT, cut=True)) == ("Let me th", "")
    tags = ThinkTags(Start.INSIDE_PATIENT)
    assert merge(tags.receive("I call.") + tags.release() + tags.close()) == ("I call.", ""), "a call follows"


def test_a_thought_that_was_cut_stays_a_thought_at_the_end_of_the_stream() -> None:
    """`close()` is called at the finish reason, and again at the end of the stream."""
    reader = ChunkReader(Start.INSIDE)
    thought = reader.receive(b'{"choices": [{"delta": {"content": "Let me th"}}]}')
    thought += reader.receive(b'{"choices": [{"delta": {}, "finish_reason": "length"}]}') + reader.close()
    assert [type(delta) for delta in thought] == [ReasoningDelta, Finished]


def test_an_answer_is_not_lost_if_a_thought_was_wrongly_assumed() -> None:
    """The engine was restarted with a parser: its reasoning now arrives in a separate field."""
    reader = ChunkReader(Start.INSIDE)
    deltas = reader.receive(b'{"choices": [{"delta": {"reasoning_content": "Hm."}}]}')
    deltas += reader.receive(b'{"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}') + reader.close()
    assert merge(deltas) == ("Hm.", "Yes.")


def test_an_answer_that_was_wrongly_taken_for_a_thought_comes_once() -> None:
    """A reader is closed with the finish_reason, and at the end of the stream."""
    tags = ThinkTags(Start.INSIDE)
    tags.receive("Paris.")
    assert merge(tags.close()) == ("", "Paris.")
    assert tags.close() == []


def test_a_thought_that_was_cut_stays_a_thought() -> None:
    assert merge(read(["Let me th"], Start.INSIDE, cut=True)) == ("Let me th", "")


# ---- reasoning in a field, and in the text ---------------------------------------------------------------------------

# A piece of the field for reasoning, or of the text.
Piece = tuple[str, str]
FIELD, TEXT = "reasoning_content", "content"


def spell(pieces: Iterable[Piece]) -> list[Piece]:
    return [(member, character) for member, piece in pieces for character in piece]


def deltas_of(pieces: Iterable[Piece], *, cut: bool = False) -> list[Delta]:
    tags = ThinkTags()
    receive = {FIELD: tags.report, TEXT: tags.receive}
    return [delta for member, piece in pieces for delta in receive[member](piece)] + tags.close(cut=cut)


def read_both(*pieces: Piece) -> tuple[str, str]:
    return merge(deltas_of(pieces))


@st.composite
def interleaved(draw: st.DrawFn, field: str, text: str) -> list[Piece]:
    """The characters of both, each in their order."""
    pieces: list[Piece] = []
    at = {FIELD: 0, TEXT: 0}
    whole = {FIELD: field, TEXT: text}
    while remaining := [member for member in whole if at[member] < len(whole[member])]:
        member = draw(st.sampled_from(remaining))
        size = draw(st.integers(1, 5))
        pieces.append((member, whole[member][at[member] : at[member] + size]))
        at[member] += size
    return pieces


thoughts = st.text(alphabet="hm </think>\n", min_size=1, max_size=20).filter(
    lambda thought: thought.strip() != "" and CLOSE not in thought
)
SPACES = st.sampled_from(["", " ", "\n", "\n\n"])


@given(st.data(), thoughts, SPACES, SPACES, st.sampled_from(["", "Paris.", "\n\nParis </think>."]))
def test_a_copy_of_the_reported_thought_is_dropped_whichever_is_ahead(
    data: st.DataObject, thought: str, before: str, after: str, answer: str
) -> None:
    copy = before + thought.strip() + after
    assume(CLOSE not in copy + CLOSE[:-1])
    pieces = data.draw(interleaved(thought, OPEN + copy + CLOSE))
    reasoning, text = read_both(*pieces, (TEXT, answer))
    assert reasoning.strip() == thought.strip()
    assert text == answer


def test_white_space_after_a_copy_belongs_to_the_text_whichever_is_ahead() -> None:
    copy = (TEXT, f"{OPEN}hm{CLOSE}")
    assert read_both((FIELD, "hm"), copy, (TEXT, "\n\nParis.")) == ("hm", "\n\nParis.")
    assert read_both((FIELD, "h"), copy, (FIELD, "m"), (TEXT, "\n\n"), (TEXT, "Paris.")) == ("hm", "\n\nParis.")
    assert read_both((FIELD, "h"), copy, (TEXT, "\n"), (FIELD, "x"), (TEXT, "\nParis.")) == ("hx", f"{copy[1]}\n\nParis.")


@given(st.data(), thoughts, st.text(alphabet="hm </think>\n", max_size=24))
def test_any_split_of_the_same_characters_gives_the_same_reasoning_and_text(
    data: st.DataObject, thought: str, tail: str
) -> None:
    pieces = [(FIELD, thought[:1]), *data.draw(interleaved(thought[1:], OPEN + tail))]
    assert read_both(*pieces) == read_both(*spell(pieces))
    tags_first = [(TEXT, OPEN), *pieces]
    assert read_both(*tags_first) == read_both(*spell(tags_first))


@given(thoughts, st.text(alphabet="hm </think>\n", max_size=24))
def test_a_tagged_text_that_is_not_the_reported_thought_is_shown_byte_for_byte(thought: str, tail: str) -> None:
    tagged, closed, _ = tail.partition(CLOSE)
    if not closed:
        tagged = tagged[: len(tagged) - partial_tag_length(tagged, CLOSE)]
    assume(tagged.strip() != thought.strip() if closed else not thought.strip().startswith(tagged.strip()))
    # An empty thought has nothing to show.
    assume(tagged.strip())
    assert read_both((FIELD, thought), (TEXT, OPEN + tail)) == (thought, OPEN + tail)


@pytest.mark.parametrize(
    "text",
    [
        "<think> is a tag that models use.",
        "<think>hm, no</think>Paris.",
        "<think>h</think>Paris.",
        "\n<think>other",
        "<think>other</thi",
        "<think>hm</think><think>more</think>",
    ],
)
def test_text_that_begins_with_a_tag_is_text_if_it_is_not_the_reported_thought(text: str) -> None:
    expected = text.replace("<think>hm</think>", "").strip()
    assert read_both((FIELD, "hm"), (TEXT, text))[1].strip() == expected
    assert read_both((FIELD, "hm"), *spell([(TEXT, text)]))[1].strip() == expected


def test_a_copy_that_was_cut_off_is_dropped() -> None:
    for tail in ("", "h", "hm", "hm\n", "hm</thi"):
        assert read_both((FIELD, "hm"), (TEXT, OPEN + tail)) == ("hm", "")


def test_an_empty_thought_beside_a_reported_one_is_dropped() -> None:
    assert read_both((FIELD, "hm"), (TEXT, "<think>\n\n</think>\n\nParis.")) == ("hm", "\n\nParis.")


def test_text_that_goes_on_where_the_reported_thought_ended_is_shown() -> None:
    assert read_both((FIELD, "hm"), (TEXT, "<think>hm and more")) == ("hm", "<think>hm and more")


def test_a_reported_thought_that_turns_away_from_the_text_shows_the_text() -> None:
    pieces = [(FIELD, "h"), (TEXT, "<think>hm</th"), (FIELD, "a"), (TEXT, "ink>x")]
    assert read_both(*pieces) == ("ha", "<think>hm</think>x")


def test_a_copy_is_not_complete_before_its_thought_is() -> None:
    pieces = [(FIELD, "h"), (TEXT, "<think>hm</think>\n"), (FIELD, "m"), (TEXT, "Paris.")]
    assert read_both(*pieces) == ("hm", "\nParis.")
    assert read_both(*pieces[:2], (TEXT, "Paris.")) == ("h", "<think>hm</think>\nParis.")


def test_a_tag_that_came_before_its_reported_thought_is_no_thought_yet() -> None:
    pieces = [(TEXT, "<thi"), (FIELD, "h"), (TEXT, "nk>\n"), (FIELD, "m"), (TEXT, "hm</think>Paris.")]
    assert read_both(*pieces) == ("hm", "Paris.")
    assert read_both((TEXT, "<think>\n"), (FIELD, "hm"), (TEXT, "hm</think>Paris."))[1] == "Paris."
    assert read_both((TEXT, "<think>"), (FIELD, "hm"), (TEXT, "</think>Paris.")) == ("hm", "Paris.")


def test_a_field_that_repeats_a_tagged_thought_is_dropped_and_one_that_differs_is_not() -> None:
    assert read_both((TEXT, "<think>hm"), (FIELD, "h"), (FIELD, "m\n"), (TEXT, "</think>Paris.")) == ("hm", "Paris.")
    assert read_both((TEXT, "<think>hm"), (FIELD, "h"), (FIELD, "a!"), (TEXT, "</think>Paris.")) == ("hmha!", "Paris.")
    assert read_both((TEXT, "<think>h"), (FIELD, "ha"), (TEXT, "m"), (FIELD, "!"), (TEXT, "</think>x")) == ("hmha!", "x")
    assert read_both((TEXT, "<think>hm</think>Paris."), (FIELD, "hm, yes")) == ("hm, yes", "Paris.")


def test_a_call_does_not_wait_for_a_copy() -> None:
    tags = ThinkTags()
    assert merge(tags.report("hm") + tags.receive("<think>hm and") + tags.release()) == ("hm", "<think>hm and")
    tags = ThinkTags()
    assert merge(tags.report("hm") + tags.receive("<think>h") + tags.release()) == ("hm", "")
    assert merge(tags.receive("m</think>Paris.")) == ("", "Paris.")


def test_comparing_takes_time_in_proportion_to_the_text() -> None:
    """Every character is compared once: with another order of growth this would take minutes."""
    thought = "hm " * 100_000
    pieces = [(FIELD, thought), *spell([(TEXT, OPEN + thought + CLOSE)]), (TEXT, "Paris.")]
    assert read_both(*pieces) == (thought, "Paris.")
    pieces = [(FIELD, "h"), (TEXT, OPEN + thought), *spell([(FIELD, thought[1:])]), (TEXT, "</think>Paris.")]
    assert read_both(*pieces) == (thought, "Paris.")


def test_probabilities_of_a_thought_do_not_become_those_of_the_text() -> None:
    reader = ChunkReader()

    def chunk(member: str, text: str) -> bytes:
        choice = {"delta": {member: text}, "logprobs": {"content": [{"token": text, "logprob": -1.0}]}}
        return msgspec.json.encode({"choices": [choice]})

    pieces = [(FIELD, "h"), (FIELD, "m"), (TEXT, "<think>"), (TEXT, "hm"), (TEXT, "</think>"), (TEXT, "Paris"), (TEXT, ".")]
    deltas = [delta for piece in pieces for delta in reader.receive(chunk(*piece))]
    tokens = [[each.token for each in delta.logprobs or ()] for delta in deltas if isinstance(delta, TextDelta)]
    assert tokens == [["Paris"], ["."]]


@given(st.text(alphabet="<>/think ab`", max_size=40), st.lists(st.integers(0, 60)))
def test_any_split_gives_the_same_where_no_client_waits(head: str, cuts: list[int]) -> None:
    raw = f"x{head}`{CLOSE}`{head}{CLOSE}y"
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    assert merge(read(pieces, Start.PATIENT)) == merge(read([raw], Start.PATIENT))


@pytest.mark.parametrize("written", ["a", f"`{CLOSE}", "<"])
def test_waiting_for_a_closing_tag_takes_time_in_proportion_to_the_text(written: str) -> None:
    text = "x" + written * (300_000 // len(written))
    assert merge(read(list(text), Start.PATIENT)) == ("", text)


# ---- the table of tags -----------------------------------------------------------------------------------------------

# A table with rows that differ in everything: in the first and the last character, and in the length.
TABLE = ReasoningTags([*PAIRS, TagPair("[THINK]", "[/THINK]"), TagPair("<|thought|>", "<|end|>")])


def test_no_opening_tag_is_the_beginning_of_another() -> None:
    assert not [(one, two) for one, _ in PAIRS for two, _ in PAIRS if one != two and two.startswith(one)]


@pytest.mark.parametrize(("opening", "closing"), [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<|thought|>", "<|end|>")])
def test_each_row_of_a_table_is_a_pair_of_tags(opening: str, closing: str) -> None:
    others = "".join(tag for tag in TABLE.closings.tags if tag != closing)
    for whole in (f"{opening}hm{closing}Paris.", f"\n{opening}hm{closing}\nParis.{closing}"):
        for pieces in ([whole], list(whole)):
            reasoning, text = merge(read(pieces, table=TABLE))
            assert (reasoning, text.strip()) == ("hm", whole.partition(closing)[2].strip())
    # A thought is closed by its own tag; one that the template has opened by any.
    assert merge(read(list(f"{opening}hm{others}{closing}Paris."), table=TABLE)) == (f"hm{others}", "Paris.")
    for start in (Start.INSIDE, Start.INSIDE_PATIENT, Start.PATIENT):
        assert merge(read(list(f"hm{closing}Paris."), start, table=TABLE)) == ("hm", "Paris.")
    assert read(["hm", f"!{closing}Paris."], table=TABLE) == [
        TextDelta("hm"),
        TextDelta("!"),
        ThoughtEnded(),
        TextDelta("Paris."),
    ]


@given(st.text(alphabet="<>/|[]THINKthink ab\n`", max_size=40), st.sampled_from(Start), st.lists(st.integers(0, 40)))
def test_any_split_gives_the_same_with_every_table(tail: str, start: Start, cuts: list[int]) -> None:
    assume(start is not Start.NEVER)
    for opening in ("", *TABLE.openings):
        raw = opening + tail
        edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
        pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
        whole, split = merge(read([raw], start, table=TABLE)), merge(read(pieces, start, table=TABLE))
        # What is shown before a tag that nothing has opened stays shown.
        assert whole == split or (not opening and start is Start.UNKNOWN)


def test_pieces_that_cannot_begin_a_tag_of_any_row_need_not_be_received() -> None:
    tags = ThinkTags(tags=TABLE)
    tags.receive("Paris")
    continues = tags.continues()
    assert continues is not None
    assert continues.takes is not None
    assert continues.takes(" is a city.")
    assert not any(map(continues.takes, ("[", "<", "a [/TH")))
    assert tags.take_if_plain(" It has parks.")
    assert not tags.take_if_plain(" [")


def test_a_copy_of_the_reported_thought_is_dropped_with_the_tags_of_its_row() -> None:
    tags = ThinkTags(tags=TABLE)
    deltas = [*tags.report("hm"), *tags.receive("[THINK]hm</think>"), *tags.receive("[/THINK]Paris."), *tags.close()]
    assert merge(deltas) == ("hm", "[THINK]hm</think>[/THINK]Paris.")
    tags = ThinkTags(tags=TABLE)
    deltas = [*tags.report("hm"), *tags.receive("[THINK]hm"), *tags.receive("[/THINK]Paris."), *tags.close()]
    assert merge(deltas) == ("hm", "Paris.")
