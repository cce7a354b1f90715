"""What is known of an engine, and what is assumed of a model until it has been probed."""

from collections import UserDict
from typing import Any

from antiphon.core.knowledge.dialects import VLLM
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.knowledge.model_names import ModelNames


def knowledge_of(*models: str) -> EngineKnowledge:
    return EngineKnowledge(VLLM, [Model(id=model, created=0, owned_by="vllm") for model in models])


def test_a_model_that_is_going_to_be_probed_is_assumed_to_see_no_tools() -> None:
    knowledge = knowledge_of("a", "b")
    knowledge.assume(["a"])
    assert knowledge.dialect_for("a").shows_tools is False
    assert knowledge.dialect_for("b") == VLLM
    assert (knowledge.assumes("a"), knowledge.assumes("b")) == (True, False)


def test_what_is_learned_ends_the_assumption_even_if_the_dialect_says_the_same() -> None:
    knowledge = knowledge_of("a")
    knowledge.assume(["a"])
    knowledge.learn("a", {"reads_calls": False})
    assert knowledge.assumes("by any name"), "this was no answer"
    knowledge.learn("a", {"shows_tools": True})
    assert not knowledge.assumes("a")
    dialect = knowledge.dialect_for("a")
    assert (dialect.shows_tools, dialect.reads_calls) == (True, False)


def test_what_is_known_stays_known_while_another_thread_learns_more() -> None:
    knowledge = knowledge_of("a")
    knowledge.learn("a", {"reads_calls": False})
    seen: list[bool] = []

    class Read(UserDict[str, Any]):
        """Looks, as another thread may, whenever it is read."""

        def __getitem__(self, name: str) -> Any:
            seen.append(knowledge.dialect_for("a").reads_calls)
            return super().__getitem__(name)

    knowledge.learn("a", Read({"shows_tools": False}))
    assert seen
    assert set(seen) == {False}
    assert knowledge.dialect_for("a").shows_tools is False


def test_an_assumption_hides_what_was_learned_before_and_gives_it_back() -> None:
    knowledge = knowledge_of("a", "b")
    knowledge.learn("a", {"shows_tools": True})
    knowledge.learn("b", {"shows_tools": False})
    knowledge.assume(["a", "b"])
    assert knowledge.dialect_for("a").shows_tools is False
    for model in ("a", "b", "never assumed"):
        knowledge.stop_assuming(model)
    assert knowledge.dialect_for("a").shows_tools is True
    assert knowledge.dialect_for("b").shows_tools is False


def test_an_engine_that_is_found_anew_has_no_old_assumptions() -> None:
    knowledge = knowledge_of("a", "b")
    knowledge.assume(["a"])
    knowledge.assume(["b"])
    assert (knowledge.assumes("a"), knowledge.assumes("b")) == (False, True)


def test_the_models_of_the_settings_begin_with_the_default_one() -> None:
    assert ModelNames().models == []
    assert ModelNames({"gpt-5": "big", "gpt-4": "small", "o9": "big"}).models == ["big", "small"]
    assert ModelNames({"gpt-5": "big", "gpt-4": "small"}, "gpt-4").models == ["small", "big"]
    assert ModelNames({}, "mine").models == ["mine"]


def test_what_an_engine_serves_follows_its_list_of_models() -> None:
    engine = knowledge_of("a:latest", "b")
    assert [engine.model_called(name) for name in ("a", "a:latest", "b:latest", "b@8bit", "c")] == [
        "a:latest",
        "a:latest",
        "b",
        "b@8bit",
        None,
    ]
    assert (engine.serves("b"), engine.serves("b:x"), engine.serves("bx"), engine.served("c")) == (True, True, False, "c")
    engine.models = knowledge_of("c").models
    assert (engine.model_called("a"), engine.model_called("c"), engine.serves("b"), engine.served("a")) == (
        None,
        "c",
        False,
        "c",
    )
    # Of two with one name, the one that is listed last.
    engine.models = knowledge_of("d", "d:latest").models
    assert (engine.model_called("d"), engine.model_called("d:latest")) == ("d:latest", "d:latest")
