"""Sessions with a real model, replayed without it: the engine gets the recorded requests, and the client the events."""

from pathlib import Path

import pytest
from transcripts.differences import difference, encoded, restored
from transcripts.replay import replayed
from transcripts.transcript import Transcript, read_engine, recorded

RECORDED = recorded()


@pytest.mark.parametrize("folder", RECORDED, ids=[folder.name for folder in RECORDED])
async def test_the_gateway_asks_and_answers_as_in_the_recording(folder: Path) -> None:
    again = await replayed(Transcript.read(folder), read_engine())
    for name, text in again.files().items():
        assert text == (folder / name).read_text(), f"{name}; if this is intended: make transcripts ARGS=--rewrite"


def test_no_recording_has_a_path_of_the_machine_in_it() -> None:
    assert len(RECORDED) >= 2
    for path in (each for folder in (*RECORDED, RECORDED[0].parent) for each in folder.glob("*.json*")):
        for private in ("/tmp/", "/home/", "/root/", "/Users/"):
            assert private not in path.read_text(), path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"a": 1}),
        ({"a": 1, "b": [1]}, {"a": 1, "b": [1, 2]}),
        ({"a": 1, "b": 2}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": [1]}, {"a": []}),
        ({"a": None}, {"a": {"+": [1]}}),
        ({"a": None}, {"-": ["a"]}),
        ({"a": 1}, {"=": {"a": 2}}),
    ],
)
def test_an_object_is_exactly_restored_from_its_difference(old: dict[str, object], new: dict[str, object]) -> None:
    assert encoded(restored(difference(new, old), old)) == encoded(new)
