"""Recorded engine streams and the exact events that they become."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from support.exchanges import FULL_REQUEST
from support.streams import check_stream, parse
from support.sync_runs import replay

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.items.answer_reader import AnswerReader

STREAMS = Path(__file__).parent / "streams"
RECORDED = sorted(STREAMS.glob("*.sse"))
IDS = [path.stem for path in RECORDED]


def expected_of(path: Path) -> Path:
    return path.parent.parent / "events" / path.name


def in_single_bytes(raw: bytes) -> Iterator[bytes]:
    return (raw[at : at + 1] for at in range(len(raw)))


def in_frames(raw: bytes) -> list[bytes]:
    return [piece + b"\n\n" for piece in raw.split(b"\n\n") if piece] if raw.endswith(b"\n\n") else [raw]


def in_random_pieces(raw: bytes, seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    at = 0
    while at < len(raw):
        size = chance.choice((1, 2, 7, 40, 300, 5000))
        yield raw[at : at + size]
        at += size


def test_there_are_recordings_and_each_has_its_events() -> None:
    assert len(RECORDED) >= 40
    assert {path.name for path in (STREAMS.parent / "events").glob("*.sse")} == {path.name for path in RECORDED}


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
def test_a_recording_becomes_exactly_these_events(path: Path) -> None:
    events = expected_of(path).read_bytes()
    assert replay([path.read_bytes()]) == events
    check_stream(parse(events))


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
def test_a_recording_gives_the_same_events_however_it_arrives(path: Path) -> None:
    raw = path.read_bytes()
    ways: dict[str, Iterable[bytes]] = {
        "byte by byte": in_single_bytes(raw),
        "frame by frame, as engines send them": in_frames(raw),
        "with the other kind of line ends": [raw.replace(b"\n", b"\r\n")],
        **{f"in random pieces, seed {seed}": in_random_pieces(raw, seed) for seed in range(5)},
    }
    for way, pieces in ways.items():
        assert replay(pieces) == expected_of(path).read_bytes(), way


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
def test_what_is_read_in_several_goes_gives_the_same_events(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = AnswerReader.receive

    def receive_and_read_on(answer: AnswerReader, data: bytes) -> list[AnyEvent]:
        answer.read_at_once(300)
        events = receive(answer, data)
        assert not answer.is_behind or answer.needs_caller
        return [*events, *answer.read_on()] if answer.is_behind else events

    monkeypatch.setattr(AnswerReader, "receive", receive_and_read_on)
    raw = path.read_bytes()
    for pieces in ([raw], in_frames(raw), [raw[at : at + 2000] for at in range(0, len(raw), 2000)]):
        assert replay(pieces) == expected_of(path).read_bytes()


@pytest.mark.parametrize("path", RECORDED, ids=IDS)
def test_every_invariant_holds_with_all_options_and_wherever_the_recording_is_cut(path: Path) -> None:
    raw = path.read_bytes()
    check_stream(parse(replay([raw], FULL_REQUEST)))
    for at in range(0, len(raw), max(1, len(raw) // 12)):
        check_stream(parse(replay([raw[:at]])))
