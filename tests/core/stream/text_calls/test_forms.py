"""Every form in which models write calls: found in every split, and only where it is meant.

One item for each form runs all checks that apply to it; the name of the check that fails is in the traceback.
"""

import itertools
import json
from collections.abc import Callable, Sequence

import pytest
from support.call_finder import Merged, assert_is_text, merge, read, splits
from support.text_call_page import PAGE, page

from antiphon.core.stream.text_calls import TextCalls, calls_ending_thought
from antiphon.core.stream.text_calls.forms import FORMS, Form, Place

NAMES = ["get_weather", "exec"]

every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
marked = [form for form in FORMS if form.place in (Place.ANYWHERE, Place.LINE)]

Check = Callable[[Form], None]
Places = frozenset[Place]
EVERYWHERE: Places = frozenset(Place)
MARKED: Places = frozenset({Place.ANYWHERE, Place.LINE})
UNMARKED: Places = frozenset({Place.ALONE, Place.END})
# ReAct's example begins with a thought, which is text.
THOUGHT = "Thought: I need the weather.\n"


def found(text: str, pieces: list[str] | None = None, names: list[str] = NAMES) -> Merged:
    """What a finder makes of a text, with the arguments decoded."""
    merged = merge(read(TextCalls(names), [text] if pieces is None else pieces))
    return [(*part[:3], json.loads(str(part[3]))) if part[0] == "call" else part for part in merged]


def with_text(before: str, *calls: tuple[object, ...], after: str = "") -> Merged:
    texts: Merged = [("text", before)] if before else []
    return [*texts, *calls, *([("text", after)] if after else [])]


def weather(index: int = 0, city: str = "Paris") -> tuple[object, ...]:
    return ("call", index, "get_weather", {"city": city})


def own_text(form: Form) -> str:
    return THOUGHT if form.example.startswith(THOUGHT) else ""


def every_cut(text: str) -> list[list[str]]:
    """The splits into two pieces at every position, and those of `splits`."""
    return [*splits(text, others=4), *([text[:at], text[at:]] for at in range(1, len(text)))]


def run_checks(checks: Sequence[tuple[Check, Places]], form: Form) -> None:
    for check, places in checks:
        if form.place in places:
            check(form)


# ---- where a call is found -------------------------------------------------------------------------------------------


def the_example_of_a_form_is_a_call_in_every_split(form: Form) -> None:
    for pieces in every_cut(form.example):
        assert found(form.example, pieces) == with_text(own_text(form), weather())


def white_space_around_a_form_changes_nothing(form: Form) -> None:
    for pieces in splits(f"\n {form.example} \n\n"):
        spaced = f"\n {own_text(form)}" if own_text(form) else ""
        assert found("", pieces) == with_text(spaced, weather())


def a_form_is_found_after_prose(form: Form) -> None:
    before = "I'll look it up.\n\n"
    for pieces in every_cut(before + form.example):
        assert found("", pieces) == with_text(before + own_text(form), weather())


def a_form_with_a_marker_is_found_in_the_middle_of_a_line(form: Form) -> None:
    for pieces in splits(f"So: {form.example}."):
        assert found("", pieces) == with_text("So: ", weather(), after=".")


def prose_after_a_form_with_a_marker_is_text(form: Form) -> None:
    for pieces in every_cut(f"Well.\n{form.example}\n\nDone, [see] {{x}}."):
        assert found("", pieces) == with_text("Well.\n", weather(), after="Done, [see] {x}.")


def two_calls_in_a_row_are_two_calls(form: Form) -> None:
    second = form.example.removeprefix(own_text(form)).replace("Paris", "Rome")
    if form.place is Place.BEGINNING:
        second = f">>>{second}" if "|" not in second else second
    for pieces in splits(f"{form.example}\n{second}"):
        assert found("", pieces) == with_text(own_text(form), weather(), weather(1, "Rome"))


# Each form with a marker, and the one after it in the table.
FOLLOWING = {first.name: second for first, second in itertools.pairwise([*marked, marked[0]])}


def a_call_in_another_form_may_follow(form: Form) -> None:
    for pieces in splits(f"{form.example}\n{FOLLOWING[form.name].example.replace('Paris', 'Rome')}"):
        assert found("", pieces) == [weather(), weather(1, "Rome")]


def every_marker_of_a_form_opens_it(form: Form) -> None:
    used = next(each for each in form.markers if each in form.example)
    for marker in form.markers:
        for pieces in splits(form.example.replace(used, marker, 1)):
            assert found("", pieces) == [weather()], marker


def every_end_of_a_form_ends_it(form: Form) -> None:
    for end in form.ends:
        used = next(each for each in form.ends if each in form.example)
        for pieces in splits(f"{form.example.removesuffix(used)}{end}Done."):
            assert found("", pieces) == [weather(), ("text", "Done.")], end


def a_fenced_block_with_nothing_but_a_form_is_a_call(form: Form) -> None:
    for pieces in splits(f"I'll look:\n```xml\n{form.example}\n```\n"):
        assert found("", pieces) == with_text("I'll look:\n", weather())


def a_form_with_a_marker_at_the_end_of_a_thought_is_a_call(form: Form) -> None:
    thought = f"I need the weather. {form.example}\n"
    assert [(call.name, json.loads(call.arguments)) for call in calls_ending_thought(thought, NAMES)] == [
        ("get_weather", {"city": "Paris"})
    ]


def a_form_without_a_marker_at_the_end_of_a_thought_is_none(form: Form) -> None:
    assert calls_ending_thought(f"I need the weather.\n{form.example}\n", NAMES) == []


CALLS: Sequence[tuple[Check, Places]] = (
    (the_example_of_a_form_is_a_call_in_every_split, EVERYWHERE),
    (white_space_around_a_form_changes_nothing, EVERYWHERE),
    (a_form_is_found_after_prose, EVERYWHERE - {Place.BEGINNING}),
    (a_form_with_a_marker_is_found_in_the_middle_of_a_line, frozenset({Place.ANYWHERE})),
    (prose_after_a_form_with_a_marker_is_text, MARKED),
    (two_calls_in_a_row_are_two_calls, EVERYWHERE),
    (a_call_in_another_form_may_follow, MARKED),
    (every_marker_of_a_form_opens_it, MARKED),
    (every_end_of_a_form_ends_it, MARKED),
    (a_fenced_block_with_nothing_but_a_form_is_a_call, frozenset({Place.ANYWHERE})),
    (a_form_with_a_marker_at_the_end_of_a_thought_is_a_call, frozenset({Place.ANYWHERE})),
    (a_form_without_a_marker_at_the_end_of_a_thought_is_none, UNMARKED),
)


@every_form
def test_a_form_is_a_call_wherever_it_is_meant(form: Form) -> None:
    run_checks(CALLS, form)


# ---- where it is not -------------------------------------------------------------------------------------------------


def a_call_of_a_tool_that_was_not_offered_is_text_as_written(form: Form) -> None:
    for text in (form.example, f"Well.\n{form.example}\n\nDone."):
        assert_is_text(text, ["exec", "get_weather_2", "get"])


def a_form_in_quotation_marks_is_text(form: Form) -> None:
    for mark in ("`", '"', "'", "``", "```"):
        assert_is_text(f"Write {mark}{form.example}{mark} to call it.", NAMES)


def a_form_in_a_fenced_block_with_other_text_is_text(form: Form) -> None:
    assert_is_text(f"Like this:\n```\nfirst\n{form.example}\n```\nDone.", NAMES)
    assert_is_text(f"Like this:\n~ ~ ~\n```xml\n# a comment\n{form.example.replace('```', '~~~')}\n```", NAMES)


def a_fenced_block_with_a_form_is_an_example_where_text_is_around_it(form: Form) -> None:
    assert_is_text(f"Like this:\n````\n{form.example}\n````\nThat calls it.", NAMES)


def a_form_without_a_marker_is_text_where_text_follows(form: Form) -> None:
    assert_is_text(f"Like this:\n{form.example}\nThat calls it.", NAMES)


def a_form_that_must_end_the_text_is_text_at_its_beginning(form: Form) -> None:
    assert_is_text(f"{form.example}\nThat calls it.", NAMES)


def a_form_that_must_begin_a_line_is_text_inside_one(form: Form) -> None:
    assert_is_text(f"So: {form.example} is it.", NAMES)


def a_form_that_was_cut_off_is_text_or_a_call_that_is_complete(form: Form) -> None:
    for end in range(1, len(form.example)):
        cut = form.example[:end]
        result = found("", [cut])
        assert found("", list(cut)) == result
        if result != [("text", cut)]:
            # Only the end is missing, or a part of it, which is text.
            before, after = own_text(form), str(result[-1][1]) if result[-1][0] == "text" else ""
            assert result == with_text(before, weather(), after=after)
            assert cut.endswith(after)
            assert "Paris" not in after


TEXTS: Sequence[tuple[Check, Places]] = (
    (a_form_in_quotation_marks_is_text, EVERYWHERE),
    (a_form_in_a_fenced_block_with_other_text_is_text, EVERYWHERE),
    (a_fenced_block_with_a_form_is_an_example_where_text_is_around_it, EVERYWHERE),
    (a_form_without_a_marker_is_text_where_text_follows, UNMARKED),
    (a_form_that_must_end_the_text_is_text_at_its_beginning, frozenset({Place.END})),
    (a_form_that_must_begin_a_line_is_text_inside_one, frozenset({Place.LINE})),
)
# Harmony's marks are never shown.
SHOWN_TEXTS: Sequence[tuple[Check, Places]] = (
    (a_call_of_a_tool_that_was_not_offered_is_text_as_written, EVERYWHERE),
    (a_form_that_was_cut_off_is_text_or_a_call_that_is_complete, EVERYWHERE),
)


@every_form
def test_a_form_is_text_wherever_it_is_only_mentioned_or_not_whole(form: Form) -> None:
    run_checks(TEXTS, form)
    if form.name != "Harmony":
        run_checks(SHOWN_TEXTS, form)


def test_no_call_is_found_in_a_harmony_message_that_was_cut_off() -> None:
    (harmony,) = (form for form in FORMS if form.name == "Harmony")
    for end in range(1, harmony.example.index("}")):
        assert all(part[0] == "text" for part in found(harmony.example[:end]))


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_lists_every_form() -> None:
    assert PAGE.read_text() == page()


def test_a_form_is_listed_once() -> None:
    assert len({form.name for form in FORMS}) == len({form.example for form in FORMS}) == len(FORMS)


# ---- long texts ------------------------------------------------------------------------------------------------------

# It contains what opens other forms.
LONG = "x{[<`" * 10_000


def a_long_argument_in_small_pieces_takes_linear_time(form: Form) -> None:
    text = form.example.replace("Paris", LONG)
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    assert found("", pieces) == with_text(own_text(form), weather(city=LONG))


def a_form_that_begins_again_and_again_takes_bounded_time(form: Form) -> None:
    for beginning in (*form.markers, form.example.partition("Paris")[0]):
        text = "Well.\n" + beginning * (20_000 // len(beginning))
        whole, pieces = found("", [text]), found("", [text[at : at + 9] for at in range(0, len(text), 9)])
        assert whole == pieces
        assert whole[0][0] == "text"


@every_form
def test_a_form_takes_bounded_time_however_long_the_text(form: Form) -> None:
    a_long_argument_in_small_pieces_takes_linear_time(form)
    a_form_that_begins_again_and_again_takes_bounded_time(form)


@pytest.mark.parametrize(
    "beginning", ["<tools>", "<function=", "[get_weather(", "\n[get_weather(city=[", "```json\n", "get_weather\n"]
)
def test_a_long_text_of_only_beginnings_is_text_in_bounded_time(beginning: str) -> None:
    text = beginning * (100_000 // len(beginning))
    for step in (len(text), 9):
        assert found("", [text[at : at + step] for at in range(0, len(text), step)]) == [("text", text)]
