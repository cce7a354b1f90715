"""A context window that is too small for Codex, and what can be done about it."""

from typing import Any

import pytest

from antiphon.cli.codex.config import ROOM


def engine(dialect: str, *models: str) -> dict[str, Any]:
    return {"url": "http://127.0.0.1:1", "status": "ready", "dialect": dialect, "models": list(models)}


@pytest.mark.parametrize(
    ("window", "lean", "enough"), [(4095, True, False), (4096, True, True), (12287, False, False), (12288, False, True)]
)
def test_a_lean_codex_needs_less(window: int, lean: bool, enough: bool) -> None:
    assert ROOM.is_in(window, lean=lean) is enough


def test_the_message_has_the_numbers_and_the_flag_of_the_engine_that_has_the_model() -> None:
    engines = [engine("vllm", "tiny"), engine("ollama", "other"), {"url": "x", "status": "not ready", "reason": "It is off."}]
    said = ROOM.too_small("tiny", {"tiny": 2048, "other": 8192}, engines, lean=True, full=False)
    assert "The context window of tiny has 2048 tokens. Codex needs at least 4096" in said
    assert "(vllm: --max-model-len N)" in said
    assert "OLLAMA" not in said
    assert "--model-context 16384" in said
    assert "`antiphon models`" in said
    assert said.endswith("`antiphon codex --anyway` starts Codex all the same.")


def test_models_with_more_room_are_named() -> None:
    said = ROOM.too_small("tiny", {"tiny": 2048, "big": 32768}, [], lean=True, full=False)
    assert "-m NAME: big." in said


@pytest.mark.parametrize(("window", "helps"), [(8192, True), (2048, False)])
def test_full_is_left_out_if_that_is_enough(window: int, helps: bool) -> None:
    said = ROOM.too_small("tiny", {"tiny": window}, [], lean=False, full=True)
    assert "at least 12288" in said
    assert ("Without --full, Codex needs 4096 tokens." in said) is helps
