"""Which effort is sent for another."""

import pytest

from antiphon.core.knowledge.dialect import EFFORTS, accepted_to_efforts, without_effort


@pytest.mark.parametrize(
    ("accepted", "sent"),
    [
        (EFFORTS, EFFORTS),
        # Tencent's Hy3, and Kimi K3.
        (("none", "low", "high"), ("none", "low", "low", "low", "high", "high", "high")),
        (("low", "high", "max"), ("low", "low", "low", "low", "high", "high", "max")),
        # Whoever asks for a thought gets one, and whoever asks for none the least.
        (("none", "max"), ("none", "max", "max", "max", "max", "max", "max")),
        (("high",), ("high",) * 7),
        (("none",), ("none",) * 7),
    ],
)
def test_each_effort_is_sent_as_the_nearest(accepted: tuple[str, ...], sent: tuple[str, ...]) -> None:
    assert accepted_to_efforts(accepted) == dict(zip(EFFORTS, sent, strict=True))


def test_efforts_run_out() -> None:
    efforts = accepted_to_efforts({"low", "high"})
    assert without_effort(without_effort(efforts, "low"), "high") == {}
