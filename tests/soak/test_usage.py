"""How the findings of the soak of usage are judged."""

from dataclasses import replace

import pytest

from soak.usage import Figures, faults, section

WELL = Figures(
    minutes=2.0,
    kills=4,
    answers=900,
    stored=600,
    stored_tokens=19_200,
    counted_tokens=19_200,
    unstored_tokens=9_600,
    lost_tokens=320,
    may_be_lost=640,
    budget=8_000,
    budget_used=8_384,
    let_in_late=0.1,
    bugs=0,
)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"counted_tokens": 19_201}, "were counted"),
        ({"lost_tokens": 641}, "of which kills explain 640"),
        ({"budget_used": 7_999}, "not used up"),
        ({"let_in_late": 9.0}, "9.0 s after"),
        ({"bugs": 1}, "1 bugs"),
    ],
)
def test_what_must_not_be_is_found(members: dict[str, float], said: str) -> None:
    assert faults(WELL) == []
    (found,) = faults(replace(WELL, **members))  # type: ignore[arg-type]
    assert said in found
    assert "19,200" in section(WELL)
