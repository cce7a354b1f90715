"""The help that a model gets: by its parameters, its window, and what it was seen to do."""

import pytest

from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.help import NO_HELP, Help, HelpSetting, choose_help, parameters_in_name, size
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model

BILLION = 1_000_000_000


@pytest.mark.parametrize(
    ("setting", "parameters", "window", "garbles_calls", "help"),
    [
        ("auto", 1.5 * BILLION, 32768, False, Help(True, False, False, True, True, "the model has 1.5 billion parameters")),
        ("auto", 1.5 * BILLION, 32768, True, Help(True, True, True, True, True, "the model has 1.5 billion parameters")),
        ("auto", 5 * BILLION, 32768, True, NO_HELP),
        ("auto", None, None, True, NO_HELP),
        ("auto", None, 8192, False, Help(lean_codex=True, reason="the context window has 8192 tokens")),
        ("auto", 70 * BILLION, 16384, False, NO_HELP),
        ("off", 1.5 * BILLION, 2048, True, NO_HELP),
        ("full", 70 * BILLION, None, False, Help(True, True, True, True, True, 'the setting help is "full"')),
    ],
)
def test_help_is_chosen_by_what_is_known(
    setting: HelpSetting, parameters: float | None, window: int | None, garbles_calls: bool, help: Help
) -> None:
    number = int(parameters) if parameters is not None else None
    assert choose_help(setting, parameters=number, window=window, garbles_calls=garbles_calls) == help


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", 1.5 * BILLION),
        ("SmolLM2-135M-Instruct-Q4_K_M.gguf", 135_000_000),
        ("gemma3:4b", 4 * BILLION),
        ("qwen3-30b-a3b", 30 * BILLION),
        ("mixtral-8x7B", 56 * BILLION),
        ("OLMoE-1B-7B-0924", 7 * BILLION),
        ("qwen2.5-1m-14b", 14 * BILLION),
        ("glm-4.6-1m", None),
        ("MiniMax-Text-01-4M", None),
        ("gpt-oss:latest", None),
        ("phi-4", None),
        ("4bit", None),
        ("1b-models/unknown", None),
    ],
)
def test_names_say_how_many_parameters_a_model_has(name: str, parameters: float | None) -> None:
    assert parameters_in_name(name) == parameters


@pytest.mark.parametrize(
    ("parameters", "words"),
    [(61_440, "61,440"), (134_515_008, "135 million"), (1_543_714_304, "1.5 billion"), (480 * BILLION, "480.0 billion")],
)
def test_a_size_is_shown_in_words(parameters: int, words: str) -> None:
    assert size(parameters) == words


def test_what_the_engine_reports_counts_more_than_the_name() -> None:
    listed = [
        Model(id="tiny-70B", created=0, owned_by="x", parameters=BILLION),
        Model(id="big", created=0, owned_by="x"),
        Model(id="llama:3b", created=0, owned_by="x"),
    ]
    knowledge = EngineKnowledge(PLAIN, listed)
    assert [knowledge.parameters_of(model.id) for model in listed] == [BILLION, None, 3 * BILLION]
    assert [bool(knowledge.help_for(model.id, "auto")) for model in listed] == [True, False, True]


def test_the_parts_of_the_help_are_shown_in_words() -> None:
    assert NO_HELP.parts == []
    assert len(Help(True, True, True, True, True).parts) == 5
    assert Help(stops_loops=True).parts == ["stops calls that fail again and again"]
